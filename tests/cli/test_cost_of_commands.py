"""What a command costs is said before it starts, and asked about on a terminal."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from cli_helpers import QUICK, explain, table
from typer.testing import CliRunner

import gpec
from gpec.cli import app

LINE = r"^Cost: ([\d,]+) explainer runs(?:, about ([\d,]+) model rows)?, about \d+ s\.$"


def the_cost(result):
    """Explainer runs and model rows of the one line about the cost."""
    assert result.exit_code == 0, result.output
    (found,) = re.findall(LINE, result.stderr, flags=re.MULTILINE)
    return [int(number.replace(",", "") or 0) for number in found]


def in_python(**parameters):
    """Cost of a fit to 120 rows, of the credit model."""

    def model(X):
        return 1 / (1 + np.exp(-(X["income"] - X["debt"] * np.where(X["age"] > 0, 1.5, 0.2)).to_numpy()))

    g = gpec.GPEC(model, n_boundary=60, n_explained=20, background=10, random_state=0, **parameters)
    return g.cost(table(120, 0).astype(float)).astype(float)


def test_fit_calibrate_and_explain_are_counted_for_their_rows(folder):
    table(60, 2).to_csv("fresh.csv", index=False)
    runs, rows = the_cost(explain("--out", "e.csv", "--calibrate", "fresh.csv"))
    told = in_python()
    expected = told.loc["fit: total"] + told.loc["calibrate"] * 60 / 120 + told.loc["explain"] * 12 / 120
    assert runs == expected["explainer_runs"] == 40 + 120 + 12
    assert rows == pytest.approx(expected["model_rows"], abs=1)
    runs, rows = the_cost(explain("--out", "p.csv", "--attribution", "posterior"))
    assert runs == 40
    assert rows == pytest.approx(told["model_rows"]["fit: total"], abs=1)
    runs, _ = the_cost(explain("--out", "x.csv", "--mode", "explain"))
    told = in_python(mode="explain")["explainer_runs"]
    assert runs == round(told["fit: total"] + told["explain"] * 12 / 120)


def test_of_a_saved_fit_only_what_is_left_to_do(folder):
    words = ["--model", "credit_model:model", "--no-progress"]
    assert the_cost(CliRunner().invoke(app, ["fit", "train.csv", *words, *QUICK, "--out", "g.gpec"]))[0] == 40
    later = [*words, "--fitted", "g.gpec"]
    assert the_cost(CliRunner().invoke(app, ["explain", "new.csv", *later, "--out", "e.csv"]))[0] == 12
    result = CliRunner().invoke(app, ["explain", "new.csv", *later, "--attribution", "posterior", "--out", "p.csv"])
    assert result.exit_code == 0
    assert "Cost" not in result.stderr


@pytest.fixture
def long(monkeypatch):
    """Every run is a long one, on a terminal or not."""
    monkeypatch.setattr("gpec.cli._run.LONG", 0.0)

    def on_terminal(there):
        monkeypatch.setattr("gpec.cli._run.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: there)))

    return on_terminal


def answered(answer, *words, command="explain", data="new.csv"):
    words = [command, data, "--model", "credit_model:model", "--background", "train.csv", *QUICK, *words]
    return CliRunner().invoke(app, words, input=answer)


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
@pytest.mark.parametrize(("command", "out"), [("explain", "e.csv"), ("report", "e.html")])
def test_a_long_run_is_not_started_without_a_yes(folder, long, answer, command, out):
    long(True)
    result = answered(answer, "--out", out, command=command)
    assert result.exit_code == 1
    assert "Go on? [y/N]" in result.stderr
    assert "Wrote" not in result.stdout
    assert not list(folder.glob("e.*"))


def test_a_yes_by_word_or_by_option_starts_it(folder, long):
    long(True)
    assert "Go on? [y/N]" in answered("y\n", "--out", "e.csv").stderr
    assert (folder / "e.csv").exists()
    result = answered("", "--out", "f.csv", "--yes")
    assert the_cost(result)
    assert "Go on?" not in result.output
    assert (folder / "f.csv").read_bytes() == (folder / "e.csv").read_bytes()


def test_without_a_terminal_nobody_is_asked(folder, long):
    long(False)
    result = answered("", "--out", "e.csv")
    assert the_cost(result)
    assert "Go on?" not in result.output


def test_a_short_run_is_not_asked_about(folder, monkeypatch):
    monkeypatch.setattr("gpec.cli._run.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    assert the_cost(answered("", "--out", "e.csv"))


def test_a_resumed_run_was_agreed_to(folder, long, monkeypatch):
    monkeypatch.setattr("gpec.runtime.checkpoint._SECONDS", 0.0)
    long(True)
    assert answered("", "--out", "e.csv", "--yes", "--keep").exit_code == 0
    (fit,) = (folder / "e.csv.partial").glob("fit-*.gpec")
    fit.unlink()  # as if it had been stopped before
    result = answered("", "--out", "e.csv")
    assert result.exit_code == 0
    assert "Resuming" in result.stderr
    assert "Cost" not in result.stderr
    assert answered("n\n", "--out", "e.csv", "--restart").exit_code == 1


def test_a_row_that_is_only_in_the_timing_stops_nothing(folder):
    """A row of the fit that the model refuses, and that is not drawn."""
    (folder / "refuses.py").write_text(
        "import numpy as np\n"
        "def rate(X):\n"
        "    assert not (X['age'] == 77).any(), 'too old'\n"
        "    return 1 / (1 + np.exp(-X['income'].to_numpy()))\n"
    )
    train = table(400, 0)
    train.loc[30, "age"] = 77.0
    train.to_csv("train.csv", index=False)
    words = ["--mode", "explain", "--explainer", "kernelshap", "--seed", "1"]
    result = explain("--out", "e.csv", *words, model="refuses:rate")
    assert result.exit_code == 0, result.output
    assert "Cost" not in result.stderr


def test_similar_rows_to_explain_are_counted(folder):
    table(60, 2).to_csv("fresh.csv", index=False)
    runs, _ = the_cost(explain("--out", "e.csv", "--calibrate", "fresh.csv", "--n-similar-explained", "2"))
    assert runs == 40 + 60 * 4 + 12 * 3
    result = explain("--out", "x.csv", "--n-similar-explained", "2")
    assert result.exit_code == 1
    assert "--n-similar-explained needs --calibrate" in result.stderr
