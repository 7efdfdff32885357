"""Errors of commands: one line on stderr, and a number."""

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pandas as pd
import pytest
from cli_helpers import QUICK, call, explain, table


def the_line(result):
    """The one line about an error; notes may stand before it."""
    assert "Traceback" not in result.output
    lines = result.stderr.strip().splitlines()
    assert not [line for line in lines[:-1] if line.startswith("gpec: ") and "note" not in line]
    return lines[-1]


def test_missing_columns_are_named(folder):
    table(5, 0).drop(columns="debt").to_csv("new.csv", index=False)
    result = explain("--out", "e.csv")
    assert result.exit_code == 1
    assert the_line(result) == (
        "gpec: new.csv does not have the columns ['debt'] that the model takes; it has ['income', 'age']."
    )


def test_error_of_the_model(folder):
    result = explain("--out", "e.csv", "--drop", "granted", model="credit_model:broken")
    assert result.exit_code == 1
    assert "the cable is out" in the_line(result)
    detailed = explain("--out", "e.csv", "--drop", "granted", "--debug", model="credit_model:broken")
    assert detailed.exit_code == 1
    assert "Traceback (most recent call last)" in detailed.stderr
    assert "RuntimeError: the cable" in detailed.stderr


def test_an_error_that_nobody_thought_of(folder, monkeypatch):
    def fail(*_, **__):
        raise KeyError("x")

    monkeypatch.setattr("gpec.cli._inputs.read_table", fail)
    result = explain("--out", "e.csv")
    assert result.exit_code == 1
    assert "KeyError: 'x' (run again with --debug for details)" in the_line(result)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing option '--out'"),
        (["--out", "e.xlsx"], "must end in .csv"),
        (["--out", "nowhere/e.csv"], "the folder nowhere does not exist"),
        (["--out", "e.csv", "--fitted", "g.gpec"], "'g.gpec' does not exist"),
        (["--out", "e.csv", "--fitted", "train.csv"], "leave out --background or --fitted"),
        (["--out", "e.csv", "--n-boundary", "3"], "--n-boundary"),
        (["--out", "e.csv", "--no-such-option"], "--no-such-option"),
        (["--out", "e.csv", "--attribution", "magic"], "magic"),
        (["--out", "e.csv", "--mode", "regression"], "regression"),
        (["--out", "e.csv", "--threshold", "half"], "'--threshold'"),
        (["--out", "e.csv", "--threshold", "1.5"], "'--threshold': 1.5 must lie between 0 and 1"),
    ],
)
def test_wrong_usage(folder, words, message):
    result = call("explain", "new.csv", "--model", "credit_model:model", "--background", "train.csv", *words)
    assert result.exit_code == 2
    assert message in the_line(result)
    assert len(result.stderr.strip().splitlines()) == 1
    assert re.search(r"[.?] See .* explain --help\.$", the_line(result))
    assert not (folder / "e.csv").exists()


def test_wrong_commands(folder):
    result = call("explian")
    assert result.exit_code == 2
    assert "explian" in the_line(result)
    result = call("--no-such-option")
    assert result.exit_code == 2
    assert "--no-such-option" in the_line(result)
    assert call().output.count("Usage") == 1


def test_a_level_that_is_none(folder):
    result = explain("--out", "e.csv", "--level", "95")
    assert result.exit_code == 2
    assert "'--level': 95 must lie between 0 and 1, such as 0.95." in the_line(result)
    assert not list(folder.glob("*.partial"))  # nothing was begun


def test_warnings_are_one_line(folder, monkeypatch):
    def warn(*_, **__):
        warnings.warn("slow\nand dear", UserWarning, stacklevel=2)
        return pd.DataFrame({"income": [1.0]})

    monkeypatch.setattr("gpec.cli._inputs.read_table", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = explain("--out", "e.csv")
    assert "gpec: note: slow and dear" in result.stderr.splitlines()


# Processes


def start(*words):
    command = [sys.executable, "-m", "gpec", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603


def test_a_process_ends_with_the_number(folder):
    process = start("explain", "nowhere.csv", "--model", "credit_model:model", "--out", "e.csv")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert out == ""
    assert err == "gpec: There is no file nowhere.csv; give the path of a CSV, Parquet or Feather file.\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize("command", ["module", "script"])
def test_ctrl_c_while_the_program_starts(tmp_path, command):
    """The signal comes in the middle of the imports, when none of gpec's own code is on the stack."""
    (tmp_path / "gpec").write_text("from gpec.cli import app\napp()\n")  # as the installed command
    (tmp_path / "scipy.py").write_text(
        "import pathlib, time\npathlib.Path(__file__).with_suffix('.imported').touch()\ntime.sleep(60)\n"
    )
    words = ["-m", "gpec"] if command == "module" else [str(tmp_path / "gpec")]
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, *words, "--version"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    end = time.monotonic() + 60
    while not (tmp_path / "scipy.imported").exists() and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == ""


def test_ctrl_c_is_looked_after_before_anything_is_imported():
    code = """if True:
        import signal, sys
        sys.argv = ["gpec"]
        sys.modules.update(typing=None, pathlib=None, numpy=None)  # cannot be imported
        try:
            import gpec
        except ImportError:
            print(signal.getsignal(signal.SIGINT).__module__)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == "gpec._interrupt\n"


@pytest.mark.skipif(os.name == "nt", reason="a process ended by its libraries")
def test_a_garbled_model_file_is_one_sentence(folder):
    """XGBoost itself does not mind, but what reads its trees next would end this process."""
    xgboost = pytest.importorskip("xgboost")
    rows = pd.read_csv("train.csv").drop(columns="granted")
    booster = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(rows, rows["income"] > 0), 2)
    booster.save_model("m.json")
    model = json.loads(Path("m.json").read_text())
    tree = model["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["right_children"][tree["left_children"].index(-1)] = 1
    Path("m.json").write_text(json.dumps(model))
    process = start("explain", "new.csv", "--model", "m.json", "--background", "train.csv", "--out", "e.csv")
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert err == (
        "gpec: m.json is damaged: its trees name nodes, columns, categories or classes that do not exist; write the "
        "model again.\n"
    )


def test_a_module_that_raises_when_it_is_imported(folder):
    for content, reason in [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def (", r"SyntaxError: invalid syntax (faulty.py, line 1)"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ]:
        sys.modules.pop("faulty", None)
        importlib.invalidate_caches()
        (folder / "faulty.py").write_text(content)
        result = explain("--out", "e.csv", model="faulty:rate")
        assert result.exit_code == 1
        assert the_line(result) == f"gpec: faulty:rate cannot be imported: its module raised {reason}."


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_text_that_is_not_utf_8(folder, encoding):
    (folder / "new.csv").write_bytes("income,debt,age,größe\n1,2,3,4\n".encode(encoding))
    result = explain("--out", "e.csv")
    assert result.exit_code == 1
    assert "new.csv is not UTF-8 text" in the_line(result)


SLOW = """
import pathlib, time
from credit_model import model

def rate(X):
    pathlib.Path("asked").touch()
    time.sleep(0.2)
    return model.predict_proba(X)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c(folder, jobs):
    (folder / "slow_model.py").write_text(SLOW)
    process = start(
        "explain", "new.csv", "--model", "slow_model:rate", "--background", "train.csv", "--drop", "granted", "--out",
        "e.csv", "--jobs", jobs, *QUICK,
    )  # fmt: skip
    end = time.monotonic() + 120
    while not (folder / "asked").exists() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.5)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    took = time.monotonic() - begin
    assert process.returncode == 130
    assert err.splitlines()[-1].startswith("Stopped.")
    assert "Traceback" not in err
    assert took < 10  # 2 s on a machine that is not busy
    assert not (folder / "e.csv").exists()


# A file of a model that ends the process which reads it is tried in a child


@pytest.mark.parametrize(
    ("what", "seconds", "message"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", 120, r"m.json is damaged: .* ends \(SIGSEGV\)"),
        ("os._exit(3)", 120, r"m.json is damaged: .* ends \(exit code 3\)"),
        ("time.sleep(60)", 2, r"m.json was not read, .* within 2 seconds"),
        ("1 / 0", 120, r"m.json does not|m.json cannot|m.json is damaged: (?!a process)"),
    ],
    ids=["signal", "exit code", "time", "Python's own error"],
)
def test_a_model_that_ends_its_process(folder, monkeypatch, what, seconds, message):
    """Python errors are left to the process that uses the model."""
    pytest.importorskip("xgboost")
    (folder / "m.json").write_text("{}")
    (folder / "library").mkdir()
    (folder / "library" / "xgboost.py").write_text(f"import os, signal, time\n{what}\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder / "library"), *sys.path]))
    monkeypatch.setattr("gpec.cli._trial.try_in_child.__kwdefaults__", {"seconds": seconds})
    result = explain("--out", "e.csv", model="m.json")
    assert result.exit_code == 1
    assert re.search(message, result.stderr), result.stderr


@pytest.mark.parametrize(
    "call",
    [
        "catboost.CatBoost.save_model",
        "gpec.explainers.TreeShap.__call__",
        "trial._LARGE = 0; catboost.CatBoost._predict",  # the trees of a large file are not read
    ],
    ids=["trees", "explained", "asked"],
)
def test_a_model_that_ends_the_process_which_explains_it(folder, monkeypatch, call):
    """CatBoost predicts with some garbled models, and ends the process when it writes their trees to a file."""
    catboost = pytest.importorskip("catboost")
    rows = pd.read_csv("train.csv")[["income", "debt", "age"]]
    model = catboost.CatBoostClassifier(iterations=2, verbose=0, allow_writing_files=False)
    model.fit(rows, rows["income"] > rows["debt"]).save_model("m.cbm")
    assert explain("--out", "e.csv", model="m.cbm").exit_code == 0
    (folder / "library").mkdir()
    (folder / "library" / "sitecustomize.py").write_text(
        "import os, catboost, gpec.explainers\nfrom gpec.cli import _trial as trial\n"
        f"{call} = lambda *_, **__: os._exit(3)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder / "library"), *sys.path]))
    result = explain("--out", "other.csv", model="m.cbm")
    assert result.exit_code == 1
    assert re.search(r"m.cbm is damaged: .* ends \(exit code 3\)", result.stderr), result.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals have other numbers")
@pytest.mark.parametrize("package", ["xgboost", "lightgbm"])
def test_garbled_trees(folder, package):
    """A child of a node that does not exist: both libraries read beyond the memory of the tree."""
    library = pytest.importorskip(package)
    rows = pd.read_csv("train.csv")[["income", "debt", "age"]]
    y = rows["income"] > rows["debt"]
    if package == "xgboost":
        path = folder / "m.json"
        library.train({"objective": "binary:logistic"}, library.DMatrix(rows, y), 2).save_model(path)
        garbled = re.sub(r'("left_children":\[)\d+', r"\g<1>99999999", path.read_text())
    else:
        path = folder / "m.txt"
        options = {"objective": "binary", "verbose": -1, "min_data_in_leaf": 5}
        library.train(options, library.Dataset(rows, y), 2).save_model(path)
        garbled = re.sub(r"(left_child=)\S+", r"\g<1>99999999", path.read_text())
    whole = explain("--out", "e.csv", model=path)
    assert whole.exit_code == 0, whole.output
    assert garbled != path.read_text()
    path.write_text(garbled)
    result = explain("--out", "other.csv", model=path)
    assert result.exit_code == 1
    assert re.search(r"is damaged: (its trees name|a process that reads it)", result.stderr), result.stderr
