"""A command that ended early goes on where it stopped, and gives the same."""

import pandas as pd
import pytest
from cli_helpers import QUICK, call, explain, table

import gpec
from archive_helpers import digest, read_tree
from gpec.models import load_model
from inference_server import Server, serving

FLOATS = [{"name": "rows", "datatype": "FP64", "shape": [-1, 3]}]


@pytest.fixture
def impatient(monkeypatch):
    """Servers are not waited for; blocks are small, and kept at once."""

    defaults = {"model_name": None, "output": None, "batch_rows": 1_000, "timeout": 10.0, "patience": 0.1}
    monkeypatch.setattr("gpec.models._remote.RemoteModel.__init__.__kwdefaults__", defaults)
    monkeypatch.setattr("gpec.runtime.checkpoint._SECONDS", 0.0)
    monkeypatch.setattr("gpec.explainers.base._MODEL_ROWS_AT_ONCE", 2_000)
    # how often the timing asks the server depends on the time
    monkeypatch.setattr("gpec.cli._run.CommandRun._tell_cost", lambda *_: None)


def ask(server):
    words = ["--out", "e.csv", "--drop", "granted"]
    return explain(*words, model=f"{server.address}/v2/models/m")


def test_a_server_that_dies_midway(folder, impatient):
    table(200, 1).to_csv("new.csv", index=False)
    with serving(Server(inputs=FLOATS)) as server:
        whole = ask(server)
        assert whole.exit_code == 0, whole.output
        n_whole = len(server.requests)
    expected = (folder / "e.csv").read_bytes()
    (folder / "e.csv").unlink()
    with serving(Server(inputs=FLOATS, fail=lambda k: "hang up" if k >= n_whole - 6 else None)) as server:
        dead = ask(server)
    assert dead.exit_code == 1
    line = dead.stderr.splitlines()[-1]
    assert "did not answer" in line
    assert "Finished work is kept in e.csv.partial; run the same command to resume." in line
    assert not (folder / "e.csv").exists()
    with serving(Server(inputs=FLOATS)) as server:
        again = ask(server)
        assert again.exit_code == 0, again.output
        assert 0 < len(server.requests) < n_whole / 2
    assert "Resuming from what an earlier run left in e.csv.partial." in again.stderr
    assert "of the 200 rows were explained already." in again.stderr
    assert (folder / "e.csv").read_bytes() == expected
    assert not (folder / "e.csv.partial").exists()


def test_what_is_kept(folder):
    result = explain("--out", "e.csv", "--checkpoint", "work", "--keep")
    assert result.exit_code == 0, result.output
    (kept,) = (folder / "work").glob("fit-*.gpec")
    assert {path.name for path in (folder / "work").iterdir()} == {"_identity.gpec", "fitting", "rows", kept.name}
    assert gpec.GPEC.load(kept, model=load_model("credit_model:model")).n_boundary == 60
    again = explain("--out", "again.csv", "--checkpoint", "work")
    assert "12 of the 12 rows were explained already." in again.stderr
    assert not (folder / "work").exists()
    pd.testing.assert_frame_equal(pd.read_csv("again.csv"), pd.read_csv("e.csv"))


@pytest.mark.parametrize(
    ("words", "change", "named"),
    [
        (["--seed", "1"], None, "random_state"),
        (["--explainer", "lime"], None, "explainer"),
        ([], "train.csv", "the rows"),
        ([], "new.csv", "rows"),
    ],
)
def test_work_of_another_kind_is_refused(folder, words, change, named):
    assert explain("--out", "e.csv", "--keep").exit_code == 0
    if change:
        table(30, 9).assign(granted=0).to_csv(change, index=False)
    other = explain("--out", "e.csv", *words)
    assert other.exit_code == 1
    assert named in other.stderr.splitlines()[-1]
    assert (folder / "e.csv.partial").exists()
    anew = explain("--out", "e.csv", "--restart", *words)
    assert anew.exit_code == 0, anew.output
    assert not (folder / "e.csv.partial").exists()


@pytest.mark.parametrize("words", [[], ["--restart"]])
def test_a_checkpoint_of_python_is_left_alone(folder, words):
    g = gpec.GPEC(load_model("credit_model:model"), n_boundary=20, n_explained=10, background=10, random_state=0)
    g.fit(pd.read_csv("new.csv"), checkpoint="work")
    before = {path.name: path.read_bytes() for path in (folder / "work").iterdir()}
    result = explain("--out", "e.csv", "--checkpoint", "work", *words)
    assert result.exit_code == 1
    assert "The folder work belongs to fit, not to the command line; give another folder." in result.stderr
    assert {path.name: path.read_bytes() for path in (folder / "work").iterdir()} == before


def test_another_model_is_refused(folder):
    assert explain("--out", "e.csv", "--keep").exit_code == 0
    (folder / "credit_third.py").write_text((folder / "credit_model.py").read_text().replace("1.5", "1.1"))
    other = explain("--out", "e.csv", model="credit_third:model")
    assert other.exit_code == 1
    assert "e.csv.partial/fitting belongs to other work: it differs in the model;" in other.stderr.splitlines()[-1]


def test_a_process_killed_while_it_wrote(folder):
    assert explain("--out", "e.csv", "--keep").exit_code == 0
    (folder / "e.csv.partial" / ".fit-0.gpec.0123456789abcdef").write_text("half")
    assert explain("--out", "e.csv").exit_code == 0
    assert not (folder / "e.csv.partial").exists()
    (folder / "e.csv.partial").mkdir()  # killed before anything was written
    assert explain("--out", "e.csv").exit_code == 0
    assert not (folder / "e.csv.partial").exists()


@pytest.mark.parametrize("words", [[], ["--restart"]])
def test_a_folder_of_somebody_else_is_left_alone(folder, words):
    (folder / "work").mkdir()
    (folder / "work" / "diary.txt").write_text("dear diary")
    result = explain("--out", "e.csv", "--checkpoint", "work", *words)
    assert result.exit_code == 1
    assert "work holds files that gpec did not write" in result.stderr.splitlines()[-1]
    assert (folder / "work" / "diary.txt").read_text() == "dear diary"


def fit(model, *words):
    return call("fit", "train.csv", "--model", model, "--out", "g.gpec", "--drop", "granted", *QUICK, *words)


def content(path):
    """What a command wrote, but for how long it took."""
    return digest(read_tree(path, "GPEC")["fitted"]) if path.suffix == ".gpec" else path.read_bytes()


@pytest.mark.parametrize("command", ["fit", "explain"])
def test_a_server_that_dies_during_the_fit(folder, impatient, command):
    words = ["--calibrate", "new.csv", "--explainer", "kernelshap"]
    out = "g.gpec" if command == "fit" else "e.csv"

    def run(server):
        model = f"{server.address}/v2/models/m"
        if command == "fit":
            return fit(model, *words)
        return explain("--out", out, "--drop", "granted", *words, model=model)

    table(40, 1).to_csv("new.csv", index=False)
    with serving(Server(inputs=FLOATS)) as server:
        whole = run(server)
        assert whole.exit_code == 0, whole.output
        n_whole = len(server.requests)
    expected = content(folder / out)
    assert not (folder / f"{out}.partial").exists()
    (folder / out).unlink()
    done = 0
    for k in range(10, 10_000, n_whole // 4):  # each run answers some more requests
        with serving(Server(inputs=FLOATS, fail=lambda n, k=k: "hang up" if n >= k else None)) as server:
            dead = run(server)
        if dead.exit_code == 0:
            break
        assert "Finished work is kept in" in dead.stderr.splitlines()[-1]
        assert f"{out}.partial; run the same command to resume." in dead.stderr.splitlines()[-1]
        assert not (folder / out).exists()
        done += 1
    assert done >= 2
    assert f"Resuming from what an earlier run left in {out}.partial." in dead.stderr
    assert k < n_whole
    assert content(folder / out) == expected
    assert not (folder / f"{out}.partial").exists()


def test_a_fit_that_is_kept_serves_again(folder):
    assert fit("credit_model:model", "--keep", "--checkpoint", "work").exit_code == 0
    again = fit("credit_model:model", "--checkpoint", "work", "--keep")
    assert "Resuming from what an earlier run left in work." in again.stderr
    other = fit("credit_model:model", "--checkpoint", "work", "--seed", "1")
    assert other.exit_code == 1
    assert "The folder work/fitting belongs to other work: it differs in random_state;" in other.stderr
    assert fit("credit_model:model", "--checkpoint", "work", "--seed", "1", "--restart").exit_code == 0
    assert not (folder / "work").exists()


def test_a_model_that_never_answers_leaves_no_folder(folder):
    assert fit("credit_model:broken").exit_code == 1
    assert not (folder / "g.gpec.partial").exists()
    assert explain("--out", "e.csv", model="credit_model:broken").exit_code == 1
    assert not (folder / "e.csv.partial").exists()
