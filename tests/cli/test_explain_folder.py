"""``gpec explain`` of a folder of Parquet files."""

import sys

import pandas as pd
import pytest
from cli_helpers import QUICK, call, table

import gpec

pytest.importorskip("dask", reason="folders need Dask")


@pytest.fixture
def files(folder):
    """``rows/``: two files with a column that is no feature."""
    (folder / "rows").mkdir()
    for i in range(2):
        table(8, 10 + i).assign(granted=0).to_parquet(folder / "rows" / f"{i}.parquet")
    assert call("fit", "train.csv", "--model", "credit_model:model", "--out", "g.gpec", *QUICK).exit_code == 0
    return folder


def explain(*words):
    return call("explain", "rows", "--model", "credit_model:model", "--out", "out", *words)


def test_each_file_is_explained(files):
    done = explain("--fitted", "g.gpec", "--attribution", "posterior")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Wrote out: 2 files, 16 rows.\nIf the explainer were run, its answer")
    g = gpec.GPEC.load("g.gpec", model=gpec.models.load_model("credit_model:model"))
    for i in range(2):
        expected = g.explain(table(8, 10 + i), attribution="posterior").to_frame()
        pd.testing.assert_frame_equal(pd.read_parquet(f"out/{i}.parquet"), expected, check_exact=True)


def test_the_same_command_goes_on(files):
    """As it does for a table; --restart begins anew, and a folder of other work is refused."""
    assert explain("--fitted", "g.gpec").exit_code == 0
    before = (files / "out" / "0.parquet").stat().st_mtime_ns
    table(8, 12).to_parquet("rows/2.parquet")
    again = explain("--fitted", "g.gpec")
    assert again.exit_code == 0, again.output
    assert "2 of the 3 files were explained already." in again.stderr
    assert (files / "out" / "0.parquet").stat().st_mtime_ns == before
    other = explain("--fitted", "g.gpec", "--level", "0.8")
    assert other.exit_code == 1
    assert "belongs to other work: it differs in the confidence level;" in other.stderr
    assert "--restart deletes what an earlier run left." in other.stderr
    anew = explain("--fitted", "g.gpec", "--level", "0.8", "--restart")
    assert anew.exit_code == 0, anew.output
    assert (files / "out" / "0.parquet").stat().st_mtime_ns > before


def test_rows_that_cannot_be_explained(files):
    table(8, 10).assign(debt=lambda rows: rows["debt"].where(rows.index != 3)).to_parquet("rows/0.parquet")
    stopped = explain("--fitted", "g.gpec")
    assert stopped.exit_code == 1
    assert "Partition 0 (0.parquet), row 3: X has a missing value in column 'debt'" in stopped.stderr
    assert len(stopped.stderr.splitlines()) == 1
    kept = explain("--fitted", "g.gpec", "--errors", "keep", "--restart")
    assert "1 of the 16 rows could not be explained; the column error says why." in kept.stderr


def test_a_new_fit_is_kept_where_that_of_a_table_is(files, monkeypatch):
    words = ["--background", "train.csv", *QUICK]
    with monkeypatch.context() as patch:
        patch.setattr("gpec.distributed._scheduler.explain_file", stop)
        stopped = explain(*words, "--checkpoint", "work")
    assert stopped.exit_code == 130
    assert "Finished work is kept in work; run the same command to resume." in stopped.stderr
    done = explain(*words, "--checkpoint", "work", "--keep")
    assert done.exit_code == 0, done.output
    assert "Resuming from what an earlier run left in work." in done.stderr
    assert list((files / "work").glob("fit-*.gpec"))
    assert explain(*words, "--checkpoint", "work").exit_code == 0
    assert not (files / "work").exists()


def stop(**_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a folder needs rows to learn from: give --background FILE"),
        (["--fitted", "g.gpec", "--scheduler", "nowhere"], "scheduler='nowhere' must be a Client, the address"),
    ],
)
def test_wrong_usage(files, words, message):
    done = explain(*words)
    assert done.exit_code in (1, 2)
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (files / "out").exists()


def test_no_scheduler_there(files, monkeypatch):
    monkeypatch.setattr("gpec.distributed._scheduler._SECONDS", 0.5)
    done = explain("--fitted", "g.gpec", "--scheduler", "tcp://127.0.0.1:9")
    assert done.exit_code == 1
    assert "No scheduler answers at tcp://127.0.0.1:9" in done.stderr


def test_dask_that_is_not_there(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = explain("--fitted", "g.gpec")
    assert done.exit_code == 1
    assert 'pip install "gpec[dask]"' in done.stderr


def test_a_scheduler_for_a_single_table(folder):
    done = call("explain", "new.csv", "--model", "credit_model:model", "--out", "e.csv", "--scheduler", "tcp://h:1")
    assert done.exit_code == 2
    assert "this is for a folder of Parquet files, and new.csv is none." in done.stderr


@pytest.mark.parametrize("case", ["no scheduler", "files of somebody else"])
def test_refused_before_the_fit(files, monkeypatch, case):
    monkeypatch.setattr("gpec.distributed._scheduler._SECONDS", 0.5)

    def never(*_, **__):
        raise AssertionError

    monkeypatch.setattr(gpec.GPEC, "fit", never)
    words, message = ["--scheduler", "tcp://127.0.0.1:9"], "No scheduler answers at tcp://127.0.0.1:9"
    if case == "files of somebody else":
        (files / "out").mkdir()
        (files / "out" / "diary.txt").write_text("dear diary")
        words, message = [], "out holds files that gpec did not write"
    done = explain("--background", "train.csv", *QUICK, *words)
    assert done.exit_code == 1
    assert message in done.stderr
    assert not (files / "out.partial").exists()


def test_stopped_by_the_user(files, monkeypatch):
    monkeypatch.setattr("gpec.distributed._scheduler.explain_file", stop)
    done = explain("--fitted", "g.gpec")
    assert done.exit_code == 130
    assert "Stopped. 0 of 2 partitions are done and kept in" in done.stderr
    assert "or run the same command, to resume." in done.stderr
    assert not (files / "out.partial").exists()
