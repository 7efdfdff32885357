"""``gpec report`` of a table, and of a saved explanation."""

import numpy as np
import pytest
from cli_helpers import QUICK, call, explain

import gpec


@pytest.fixture(autouse=True)
def _needs():
    pytest.importorskip("plotly")
    pytest.importorskip("jinja2")


@pytest.fixture
def saved(folder):
    """``e.gpec``, at the level 0.95."""
    assert explain("--out", "e.gpec").exit_code == 0
    return gpec.Explanation.load("e.gpec")


def test_report_of_a_table_and_of_a_saved_explanation(folder):
    result = call("report", "train.csv", "--model", "credit_model:model", *QUICK)
    assert result.exit_code == 0, result.output
    page = (folder / "train-report.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert explain("--out", "e.gpec").exit_code == 0
    result = call("report", "e.gpec", "--out", "page.html")
    assert result.exit_code == 0, result.output
    assert (folder / "page.html").stat().st_size > 10_000
    assert call("report", "train.csv").exit_code == 2
    assert call("report", "nowhere.gpec").exit_code == 2
    assert call("report", "train.csv", "--model", "credit_model:model", "--out", "page.pdf").exit_code == 2


def test_a_saved_explanation_can_change_its_level(saved, monkeypatch):
    seen = []
    monkeypatch.setattr(gpec.Explanation, "to_html", lambda e, path, **_: (seen.append(e), path.touch()))
    for words in ([], ["--level", "0.6"], ["--level", "0.95"]):
        result = call("report", "e.gpec", *words)
        assert result.exit_code == 0, result.output
    assert [e.confidence_level for e in seen] == [0.95, 0.6, 0.95]
    np.testing.assert_array_equal(seen[1].lower, saved.interval(0.6)[0])


@pytest.mark.parametrize(
    "words",
    [["--model", "credit_model:model"], ["--calibrate", "new.csv"], ["--seed", "0"], ["--no-progress"], ["--keep"]],
)
def test_a_saved_explanation_takes_no_other_option(folder, saved, words):
    result = call("report", "e.gpec", *words)
    assert result.exit_code == 2
    option = words[0].replace("--no-", "--")
    assert result.stderr == (
        f"root report: Invalid value for {option}: e.gpec is explained already; leave out {option}. "
        "See root report --help.\n"
    )
    assert not (folder / "e-report.html").exists()
