"""The README is executed, and every link and name in the docs exists."""

import json
import re

import matplotlib as mpl
import pytest
import torch
from benchmarks import baselines, explainers

from package_sources import PACKAGE, ROOT

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


# Pages with code, and what it prints among other things.
PRINTED = {
    "datasets.md": "nhanes_diabetes",
    "design.md": "[1. 1. 1.]",
    "explainers.md": "(5, 6) (5, 6)",
    "images.md": "(2, 144, 3)",
}


def test_every_page_with_code_is_run():
    assert set(PRINTED) == {page.name for page in (ROOT / "docs").glob("*.md") if "```python" in page.read_text()}


@pytest.mark.parametrize(("page", "printed"), PRINTED.items())
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


def test_every_room_is_in_the_design():
    text = (ROOT / "docs" / "design.md").read_text()
    folders = {f"{path.name}/" for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    modules = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py", "__main__.py", "_version.py"}
    assert {"kernels/", "estimator.py"} <= folders | modules
    assert [room for room in sorted(folders | modules) if f"`{room}`" not in text] == []


def test_make_targets_named_in_the_pages_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"\bmake ([a-z]+)", page.read_text()):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page.name}: make {target}"
