# Every target does its own set-up; a second run installs nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

.PHONY: demo test lint bench clean help

help:
	@echo "make demo   explain breast-cancer diagnoses with error bars (about a minute)"
	@echo "make test   lint, type-check and run the tests"
	@echo "make lint   ruff and mypy only"
	@echo "make bench  measure speed, accuracy and memory; writes benchmarks/RESULTS.md"

$(VENV)/core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	@touch $@

# torch comes first: as a dependency of another package the largest build would be taken
$(VENV)/dev: $(VENV)/core
	$(PIP) torch
	$(PIP) -e .[dev,data,torch,bench]
	@touch $@

demo: $(VENV)/core
	$(BIN)/gpec demo

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto  # one process a core, one thread each

bench: $(VENV)/dev
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
