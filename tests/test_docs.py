"""The README is executed, and every link and name in the docs exists."""

import json
import re
from pathlib import Path

import matplotlib as mpl
import pytest
import torch
from benchmarks import baselines, explainers

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_readme_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) >= 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)  # noqa: S102  the README is ours
    assert "alcohol" in capsys.readouterr().out
    assert names["h"].boundary_ is names["g"].boundary_
    mpl.pyplot.close("all")


@pytest.mark.parametrize(
    ("page", "printed"),
    [("datasets.md", "nhanes_diabetes"), ("explainers.md", "(5, 6) (5, 6)"), ("images.md", "(2, 144, 3)")],
)
def test_pages_run_as_they_stand(page, printed, capsys):
    names: dict[str, object] = {}
    with torch.random.fork_rng():
        for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL):
            exec(compile(block, page, "exec"), names)  # noqa: S102  the page is ours
    assert printed in capsys.readouterr().out


def test_the_figures_of_the_data_sets_are_those_measured():
    text = (ROOT / "docs" / "datasets.md").read_text()
    measured = json.loads((ROOT / "benchmarks" / "results.json").read_text())["baselines"]
    assert len(measured) == 9
    for line in measured:
        assert baselines.row(line) in text


def test_the_figures_of_the_explainers_are_those_measured():
    text = (ROOT / "docs" / "explainers.md").read_text()
    measured = json.loads((ROOT / "benchmarks" / "results.json").read_text())["explainers"]
    assert set(measured) == set(explainers.ABOUT)
    for name, line in measured.items():
        assert explainers.row(name, line) in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_room_of_the_design_exists():
    text = (ROOT / "docs" / "design.md").read_text()
    rooms = [name for cell in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(.*?)`", cell)]
    assert len(rooms) > 15
    for room in rooms:
        assert (ROOT / "src" / "gpec" / room).exists(), room


def test_make_targets_named_in_the_pages_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"\bmake ([a-z]+)", page.read_text()):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page.name}: make {target}"
