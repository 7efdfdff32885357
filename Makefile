# Every target does its own set-up; a second run installs nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SIZE ?= small
OUT ?= build/reproduction
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

.PHONY: demo test test-data test-browser lint bench reproduce soak package docs clean help

help:
	@echo "make demo   explain breast-cancer diagnoses with error bars (a few seconds)"
	@echo "make test   lint, type-check and run the tests; needs no data, no browser and no network"
	@echo "make test-data  the tests of the real data files, in the folder that GPEC_DATA names"
	@echo "make test-browser  the tests of report and page in a real browser, which \`make test' runs too where there is one"
	@echo "make lint   ruff and mypy only"
	@echo "make soak   10,000 generated runs, every number finite; 2,000 altered archives; 5,000 generated tables and models; fits and explanations killed 50 times each (an hour or more)"
	@echo "make package  build wheel and sdist, try them in empty environments, with the lowest versions allowed, and on Python 3.11 to 3.13 (half an hour)"
	@echo "make docs   build the site into docs/_build/html (two minutes)"
	@echo "make bench  measure speed, accuracy and memory; writes benchmarks/RESULTS.md"
	@echo "make reproduce SIZE=small OUT=build/reproduction  the paper's tables and figures (a quarter of an hour; needs GPEC_DATA)"

$(VENV)/core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	@touch $@

# torch comes first: as a dependency of another package the largest build would be taken
$(VENV)/dev: $(VENV)/core
	$(PIP) torch
	$(PIP) -e .[dev,data,torch,bench,app,files,dask,docs]
	@touch $@

demo: $(VENV)/core
	$(BIN)/gpec demo

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	env -u GPEC_DATA OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto  # one process a core, one thread each

test-data: $(VENV)/dev
	@[ -d "$$GPEC_DATA" ] || { echo "GPEC_DATA must name the folder of the data files; docs/datasets.md says what it holds"; exit 1; }
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m data tests

test-browser: $(VENV)/dev
	@{ command -v chromium || command -v chromium-browser; } >/dev/null && command -v chromedriver >/dev/null || \
		{ echo "There is no browser to test with; on Debian: apt install chromium chromium-driver"; exit 1; }
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m browser tests

soak: $(VENV)/dev
	GPEC_RUNS=10000 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/faults/test_odd_input.py -k every_number_is_finite
	GPEC_ARCHIVES=2000 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -s tests/faults/test_altered_archives.py
	GPEC_TABLES=5000 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -s tests/faults/test_generated_tables.py
	GPEC_KILLS=50 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -s tests/faults/test_killed.py

package: $(VENV)/dev
	$(BIN)/python -m release

$(VENV)/docs: $(VENV)/core
	$(PIP) -e .[docs]
	@touch $@

docs: $(VENV)/docs
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

bench: $(VENV)/dev
	$(BIN)/python -m benchmarks

reproduce: $(VENV)/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m paper --size $(SIZE) --out $(OUT)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache docs/_build docs/api docs/examples
