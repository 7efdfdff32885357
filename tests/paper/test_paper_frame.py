"""The frame of all scripts: results that are kept, the report, the command."""

import json
import re
import shutil
import sys
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from paper._runs import HERE, Run, mean_and_error, plus_minus

from paper import __main__ as command
from paper import _report


class InterruptedRunError(Exception):
    pass


class Counted:
    """Gives a number, and counts how often it is asked."""

    def __init__(self, number):
        self.number, self.calls = number, 0

    def __call__(self):
        self.calls += 1
        return self.number


def fail():
    raise InterruptedRunError("stopped by hand")


def begin(tmp_path, name="trial", size="small", **settings):
    return Run(name, size, None, settings, tmp_path)


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    first = Counted(1.5)
    run = begin(tmp_path, n=3)
    run.once("first", first)
    with pytest.raises(InterruptedRunError, match="stopped by hand"):
        run.once("second", fail)
    again = begin(tmp_path, n=3)
    assert again.once("first", first) == 1.5
    assert first.calls == 1
    assert again.once("second", Counted(2)) == 2
    assert json.loads(again.path.read_text())["values"] == {"first": 1.5, "second": 2}


def test_other_settings_begin_anew(tmp_path):
    begin(tmp_path, n=3).once("first", Counted(1))
    begin(tmp_path, n=3).once("second", Counted(1))
    other = begin(tmp_path, n=4)
    assert other.values == {}
    number = Counted(7)
    assert other.once("first", number) == 7
    assert number.calls == 1
    document = json.loads(other.path.read_text())
    assert document["settings"] == {"n": 4}
    assert set(document["values"]) == set(document["seconds"]) == {"first"}


def test_tuples_in_settings_are_not_taken_for_other_settings(tmp_path):
    begin(tmp_path, levels=(1, 2), scale=np.float64(0.5)).once("first", Counted(1))
    assert begin(tmp_path, levels=(1, 2), scale=np.float64(0.5)).values == {"first": 1}


def test_the_file_has_version_and_settings_and_nothing_is_left_beside_it(tmp_path):
    run = begin(tmp_path, n=3)
    run.once("first", Counted(1))
    document = json.loads(run.path.read_text())
    assert set(document) == {"version", "python", "size", "settings", "seconds", "values"}
    assert document["size"] == "small"
    assert [path.name for path in run.path.parent.iterdir()] == ["trial.json"]


def test_what_once_gives_is_what_a_later_run_reads(tmp_path):
    value = {"a": np.array([[1 / 3, np.nan], [np.inf, 2.0]]), "b": (np.int64(3), True), 4: "x"}
    now = begin(tmp_path).once("first", lambda: value)
    assert now == {"a": [[0.333333, None], [None, 2.0]], "b": [3, True], "4": "x"}
    assert begin(tmp_path).values["first"] == now


def test_found_reads_a_finished_run_of_any_settings(tmp_path):
    run = begin(tmp_path, n=9)
    run.once("first", Counted(1))
    assert Run.found("trial", "small", tmp_path) is None
    run.finish()
    assert Run.found("trial", "paper", tmp_path) is None
    found = Run.found("trial", "small", tmp_path)
    assert (found.values, found.settings) == ({"first": 1}, {"n": 9})


def test_what_is_finished_is_computed_anew(tmp_path):
    run = begin(tmp_path, n=9)
    run.once("first", Counted(1))
    run.finish()
    again = begin(tmp_path, n=9)
    assert again.once("first", Counted(2)) == 2
    assert Run.found("trial", "small", tmp_path).values == {"first": 1}
    again.finish()
    assert Run.found("trial", "small", tmp_path).values == {"first": 2}


def test_each_size_has_its_choice(tmp_path):
    chosen = [begin(tmp_path, size=size).choose(toy=1, small=2, paper=3) for size in ("toy", "small", "paper")]
    assert chosen == [1, 2, 3]


def test_mean_and_standard_error():
    mean, error = mean_and_error([1.0, 2.0, 6.0])
    assert mean == pytest.approx(3.0)
    assert error == pytest.approx(np.sqrt(((-2) ** 2 + 1 + 9) / 2 / 3))
    assert plus_minus([1.0, 2.0, 6.0], 2) == "3.00 ± 1.53"
    assert plus_minus([4.0], 1) == "4.0"


def test_figures_are_png_without_the_time_of_day(tmp_path):
    figure = plt.figure(figsize=(1, 1))
    figure.add_subplot().plot([0, 1], label="line")
    begin(tmp_path, size="toy").save(figure, "line")
    assert not plt.fignum_exists(figure.number)
    (path,) = (tmp_path / "figures" / "toy").iterdir()
    assert path.name == "line.png"
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert b"date" not in path.read_bytes().lower()


@pytest.fixture
def scripts(monkeypatch):
    """Two scripts in place of the real ones; what was called, in order."""
    calls = []

    def script(name):
        return SimpleNamespace(
            settings=lambda size, seeds: {"seeds": seeds},
            run=lambda run: calls.append(("run", name, run.size)) or run.once("n", lambda: len(name)),
            draw=lambda run: calls.append(("draw", name, run.size)),
            report=lambda run: [f"## {name} at {run.size}", f"{run.values['n']}"],
        )

    made = {f"paper.{name}": script(name) for name in ("one", "three")}
    monkeypatch.setattr(command, "PARTS", ("one", "three"))
    monkeypatch.setattr(command, "import_module", made.__getitem__)
    return calls


@pytest.fixture
def ask(monkeypatch, tmp_path):
    """The command with these words, its results in ``tmp_path``."""

    def ask(*words):
        monkeypatch.setattr(sys, "argv", ["paper", *words, "--jobs", "1", "--out", str(tmp_path)])
        command.main()

    return ask


def test_the_report_takes_the_largest_size_of_each(scripts, tmp_path):
    command.run_part("three", "toy", folder=tmp_path)  # is for tests, and never reported
    command.run_part("one", "paper", folder=tmp_path)
    command.run_part("one", "small", folder=tmp_path)
    command.write_report(tmp_path)
    text = (tmp_path / "RESULTS.md").read_text()
    assert text.startswith((HERE / "opening.md").read_text().splitlines()[0])
    assert "Nothing has been run yet." in text  # these scripts judge nothing
    closing = "\n" + (HERE / "closing.md").read_text()
    assert text.endswith("\n\n## one at paper\n3\n" + closing)
    command.run_part("three", "small", folder=tmp_path)
    command.write_report(tmp_path)
    assert (tmp_path / "RESULTS.md").read_text().endswith("\n\n## one at paper\n3\n\n## three at small\n5\n" + closing)


def test_without_names_all_are_run_at_small_in_order(scripts, ask, tmp_path):
    ask()
    assert scripts == [(what, name, "small") for name in ("one", "three") for what in ("run", "draw")]
    assert "## three at small" in (tmp_path / "RESULTS.md").read_text()


def test_names_size_and_seeds_are_obeyed(scripts, ask, tmp_path):
    ask("three", "--size", "paper", "--seeds", "4")
    assert scripts == [("run", "three", "paper"), ("draw", "three", "paper")]
    assert Run.found("three", "paper", tmp_path).settings == {"seeds": 4}


def test_report_computes_nothing(scripts, ask, tmp_path):
    ask("report")
    assert scripts == []
    assert (tmp_path / "RESULTS.md").exists()


def test_an_unknown_name_is_refused_before_anything_is_run(scripts, ask, capsys):
    with pytest.raises(SystemExit, match="2"):
        ask("one", "two")
    assert "there is no two; choose among one, three, or report" in capsys.readouterr().err
    assert scripts == []


@pytest.fixture
def judging():
    """A script with a lead, tables and verdicts, and one with a report only."""
    claims = [
        _report.Claim("Fig. 2", "it rises", "by eye", "1 of 2", "holds in part"),
        _report.Claim("First of all", "it is so", "not asked", "3", "fails"),
        _report.Claim("Nowhere", "it is not told", "", "", "fails"),
    ]
    full = SimpleNamespace(
        lead=lambda run: ["## First of all: is it so?", "", "No."],
        report=lambda run: ["## Fig. 2: does it rise?", "", "In part."],
        tables=lambda run: ["## Fig. 2", "", "| 1.2345 |"],
        verdicts=lambda run: claims,
    )
    return [(full, None), (SimpleNamespace(report=lambda run: ["## Fig. 3: what else?"]), None)]


def test_the_first_page_has_every_verdict_with_a_link_to_its_section(judging):
    text = _report.results(judging)
    assert "Of 3 claims 1 holds in part, 2 fail." in text
    lines = [line for line in text.splitlines() if line.endswith("** |")]
    assert lines == [
        "| [First of all](#first-of-all-is-it-so) | it is so | not asked | 3 | **fails** |",
        "| [Fig. 2](#fig-2-does-it-rise) | it rises | by eye | 1 of 2 | **holds in part** |",
        "| Nowhere | it is not told |  |  | **fails** |",
    ]
    assert (
        text.index("## What holds") < text.index("## First of all") < text.index("## Fig. 2") < text.index("## Fig. 3")
    )
    assert "1.2345" not in text


def test_the_appendix_has_the_tables_of_those_that_have_some(judging):
    text = _report.appendix(judging)
    assert "## Fig. 2\n\nIn short: [Fig. 2: does it rise?](RESULTS.md#fig-2-does-it-rise).\n\n| 1.2345 |\n" in text
    assert "Fig. 3: what else?" not in text
    assert "## Choices made after looking" in text


def test_verdicts_on_several_cases():
    assert [_report.judged(n, 2) for n in (0, 1, 2)] == ["fails", "holds in part", "holds"]
    assert _report.overall(["fails", "fails"]) == "**Fails.**"
    assert _report.overall(["fails", "holds"]) == "**Holds in part.**"
    assert _report.overall(["fails", "unsettled"]) == "**Fails.**"
    assert _report.more("Fig. 1, 3, 9") == "All numbers: [Fig. 1, 3, 9](TABLES.md#fig-1-3-9)."


def test_the_committed_report_is_that_of_the_committed_results(tmp_path, monkeypatch):
    monkeypatch.setenv("GPEC_DATA", str(tmp_path))  # which has no data: none are needed
    shutil.copytree(HERE / "results", tmp_path / "results")
    command.write_report(tmp_path)
    for name in ("RESULTS.md", "TABLES.md"):
        assert (tmp_path / name).read_text() == (HERE / name).read_text()


def headings(name):
    return [line[3:] for line in (HERE / name).read_text().splitlines() if line.startswith("## ")]


def test_links_between_report_and_appendix_lead_somewhere():
    text = {name: (HERE / name).read_text() for name in ("RESULTS.md", "TABLES.md")}
    places = {name: {_report.slug(title) for title in headings(name)} for name in text}
    seen = 0
    for here, words in text.items():
        for name, place in re.findall(r"\]\((\w*\.?m?d?)#([^)]+)\)", words):
            assert place in places[name or here], (here, name, place)
            seen += 1
    assert seen > 20


def test_every_figure_of_the_paper_is_in_one_of_the_two():
    text = "".join((HERE / name).read_text() for name in ("RESULTS.md", "TABLES.md"))
    pictures = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert len(pictures) == len(set(pictures))
    kept = {path.relative_to(HERE).as_posix() for path in (HERE / "figures").rglob("*") if path.is_file()}
    assert set(pictures) == kept
    shown = {int(n) for path in pictures for n in re.findall(r"/fig(\d\d)_", path)}
    assert shown == set(range(1, 15)) - {2}  # Fig. 2 is a sketch of the method


def test_the_report_is_short_enough_to_be_read():
    words = (HERE / "RESULTS.md").read_text().split()
    assert len([word for word in words if re.search(r"\w", word)]) <= 4_000
