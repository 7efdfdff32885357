"""The README and the pages are executed, print what they say they print, and every link and name in them exists."""

import json
import re

import matplotlib as mpl
import pytest

from extras import torch
from package_sources import PACKAGE, ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_readme_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)  # noqa: S102  the README is ours
    statement = " ".join(line.removeprefix("> ") for line in text.splitlines() if line.startswith("> "))
    assert statement
    assert statement in capsys.readouterr().out
    mpl.pyplot.close("all")


# Pages with code, and what it prints among other things.
PRINTED = {
    "calibrate.md": "attribution lies inside the first row's interval",
    "command-line.md": "",
    "datasets.md": "nhanes_diabetes",
    "design.md": "[1. 1. 1.]",
    "explainers.md": "(5, 6) (5, 6)",
    "images.md": "(2, 144, 3)",
    "index.md": "",
    "inputs.md": "True",
    "many-rows.md": "of the variance is predicted",
    "regression.md": "exact for each row",
    "report.md": "",
    "scale.md": "True",
    "similar.md": "sign firm for",
    "slow.md": "model rows in all",
    "start.md": "alcohol",
    "wide.md": "narrower on average",
}


def test_every_page_with_code_is_run():
    assert set(PRINTED) == {page.name for page in (ROOT / "docs").glob("*.md") if "```python" in page.read_text()}


@pytest.mark.parametrize(("page", "printed"), PRINTED.items())
def test_pages_run_as_they_stand(page, printed, tmp_path, monkeypatch, capsys):
    """A block of text after a block of code is what that code prints."""
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / page).read_text()
    names: dict[str, object] = {}
    out = ""
    with torch.random.fork_rng():
        for block, shown in re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", text, re.DOTALL):
            exec(compile(block, page, "exec"), names)  # noqa: S102  the page is ours
            said = capsys.readouterr().out
            out += said
            if shown:
                require_same(said, shown)
    assert printed in out
    mpl.pyplot.close("all")


NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def require_same(said, shown):
    """The same words, and numbers that differ by no more than another machine would bring about."""
    assert NUMBER.sub("#", said).split() == NUMBER.sub("#", shown).split()
    numbers = [[float(x.replace(",", "")) for x in NUMBER.findall(text)] for text in (said, shown)]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.1, abs=0.02)


@pytest.mark.parametrize(
    ("said", "shown"), [("0.30 inside", "0.40 inside"), ("0.30 inside", "0.30 outside"), ("1 2", "1"), ("", "0.3")]
)
def test_what_is_printed_otherwise_is_noticed(said, shown):
    require_same(shown, shown)
    with pytest.raises(AssertionError, match=r"approx|assert \["):
        require_same(said, shown)


def benchmark(name):
    return pytest.importorskip(f"benchmarks.{name}")


def test_the_figures_of_the_data_sets_are_those_measured():
    text = (ROOT / "docs" / "datasets.md").read_text()
    measured = json.loads((ROOT / "benchmarks" / "results.json").read_text())["baselines"]
    assert len(measured) == 9
    baselines = benchmark("baselines")
    for line in measured:
        assert baselines.row(line) in text


def test_the_figures_of_the_explainers_are_those_measured():
    text = (ROOT / "docs" / "explainers.md").read_text()
    measured = json.loads((ROOT / "benchmarks" / "results.json").read_text())["explainers"]
    explainers = benchmark("explainers")
    assert set(measured) == set(explainers.ABOUT)
    for name, line in measured.items():
        assert explainers.row(name, line) in text


def test_the_figures_of_the_sizes_are_those_measured():
    text = (ROOT / "docs" / "sizes.md").read_text()
    measured = json.loads((ROOT / "benchmarks" / "results.json").read_text())["sizes"]
    sizes = benchmark("sizes")
    for name, counts in (("n_explained", sizes.EXPLAINED), ("n_boundary", sizes.BOUNDARY)):
        assert [line[name] for line in measured[name]] == list(counts)
        for line in measured[name]:
            assert sizes.row(name, line) in text


def test_the_costs_of_a_row_are_those_measured():
    text = (ROOT / "docs" / "scale.md").read_text()
    measured = json.loads((ROOT / "benchmarks" / "results.json").read_text())["scale"]
    scale = benchmark("scale")
    assert [len(measured[part]) for part in ("rows", "census")] == [len(scale.CASES), len(scale.ON_CENSUS)]
    for part, row in (("rows", scale.row), ("census", scale.census_row)):
        for line in measured[part]:
            assert row(line) in text


BUILT = {"examples/index.rst"}  # by the site: tests/test_site.py follows it there


def test_links_lead_somewhere():
    """Within the project; no test uses the network."""
    links = [
        (page, target)
        for page in PAGES
        for target in sorted(set(re.findall(r"\]\((?!https:)([^)#]+)", page.read_text())) - BUILT)
    ]
    assert len(links) > 20
    assert [f"{page.name}: {target}" for page, target in links if not (page.parent / target).exists()] == []


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
    in_code = re.compile(r"(?:`|^ {4})make ([a-z]+)", re.MULTILINE)
    assert {"test", "docs"} <= {target for page in PAGES for target in in_code.findall(page.read_text())}
    for page in PAGES:
        for target in in_code.findall(page.read_text()):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page.name}: make {target}"
