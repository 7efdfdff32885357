"""The site: it builds without a warning, opens without a network, and names all that is public."""

import importlib
import pkgutil
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

import gpec
from package_sources import ROOT

pytest.importorskip("sphinx", reason="the site needs Sphinx: pip install '.[docs]'")
MADE = shutil.ignore_patterns("_build", "api", "examples", "__pycache__")
ALIASES = {"gpec.estimator", "gpec.explanation"}  # whose names are those of gpec itself


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A copy of the pages, built; the examples of the gallery are not run."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=MADE)
    (folder / "benchmarks").mkdir()
    shutil.copy(ROOT / "benchmarks" / "RESULTS.md", folder / "benchmarks")
    shutil.copytree(ROOT / "paper" / "figures", folder / "paper" / "figures")
    for name in ("RESULTS.md", "TABLES.md"):
        shutil.copy(ROOT / "paper" / name, folder / "paper")
    options = ["-W", "--keep-going", "-q", "-b", "html", "-D", "plot_gallery=0"]
    command = [sys.executable, "-m", "sphinx", *options, str(folder / "docs"), str(folder / "html")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)  # noqa: S603
    assert run.returncode == 0, run.stderr
    return folder / "html"


class Page(HTMLParser):
    """The places of a page that can be linked to, what it links to, and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.places, self.links, self.loads = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.places.add(found.get("id"))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") != "canonical":
            self.loads.append(found.get("href") or "")
        elif tag in ("script", "img", "iframe", "source"):
            self.loads.append(found.get("src") or "")


@pytest.fixture(scope="module")
def pages(site):
    found = (path for path in site.rglob("*.html") if "_static" not in path.parts)
    return {path.relative_to(site).as_posix(): Page(path) for path in found}


def test_every_page_is_there(site):
    written = {path.stem for path in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*.rst")]}
    assert {"index", "why", "wide", "api"} <= written
    assert written - {path.stem for path in site.glob("*.html")} == set()
    examples = {path.stem for path in (ROOT / "docs" / "gallery").glob("plot_*.py")}
    assert len(examples) >= 5
    assert examples <= {path.stem for path in (site / "examples").glob("*.html")}


def test_links_inside_the_site_lead_somewhere(site, pages):
    broken = []
    for name, page in pages.items():
        for link in {link for link in page.links if not re.match(r"[a-z]+:", link)}:
            target, _, place = unquote(link).partition("#")
            path = (site / name).parent / target if target else site / name
            if not path.exists():
                broken.append((name, link))
            elif place and path.suffix == ".html":
                known = pages[path.resolve().relative_to(site.resolve()).as_posix()].places
                broken += [(name, link)] * (place not in known)
    assert broken == []


def test_nothing_is_loaded_from_a_network(pages):
    loads = [(name, load) for name, page in pages.items() for load in page.loads]
    assert loads
    assert [(name, load) for name, load in loads if re.match(r"(https?:)?//", load)] == []


def public_modules():
    names = {module.name for module in pkgutil.iter_modules(gpec.__path__)} - {"pipeline", "runtime"}
    rooms = [f"gpec.{name}" for name in sorted(names) if not name.startswith("_")]
    assert {"gpec.kernels", "gpec.plots", "gpec.intervals"} <= set(rooms)
    return rooms


@pytest.fixture(scope="module")
def documented(site):
    from sphinx.util.inventory import InventoryFile

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    return {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}


def test_every_public_name_is_in_the_reference(documented):
    missing = []
    for room in public_modules():
        names = importlib.import_module(room).__all__
        assert names
        where = "gpec" if room in ALIASES else room
        missing += [f"{room}.{name}" for name in names if f"{where}.{name}" not in documented]
    assert missing == []


def test_every_name_of_the_package_is_in_the_reference(documented):
    short = {"Attribution": "gpec.explainers.Attribution", "BoundarySample": "gpec.boundary.BoundarySample"}
    for name, full in short.items():
        room, _, last = full.rpartition(".")
        assert getattr(gpec, name) is getattr(importlib.import_module(room), last)
    short |= dict.fromkeys(("calibration", "promises", "trust"), "gpec.intervals")
    missing = [name for name in gpec.__all__ if short.get(name, f"gpec.{name}") not in documented]
    assert missing == []


def test_a_name_that_is_not_there_would_be_noticed(documented):
    assert "gpec.kernels.WEG" in documented
    assert "gpec.kernels.Nothing" not in documented
