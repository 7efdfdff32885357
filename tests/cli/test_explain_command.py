"""``gpec fit`` and ``gpec explain`` give what the Python calls give."""

import csv
import importlib.util
import json
import sys

import numpy as np
import pandas as pd
import pytest
from cli_helpers import QUICK, call, explain, table

import gpec
from gpec.data import read_table


def in_python(folder, **options):
    """The same by Python calls."""
    spec = importlib.util.spec_from_file_location("credit_here", folder / "credit_model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    g = gpec.GPEC(module.model, n_boundary=60, n_explained=20, background=10, random_state=0, progress=False)
    g.fit(table(120, 0).astype(float))
    return g, g.explain(table(12, 1), **options)


def same_tables(found, expected):
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=0, atol=1e-12)


READERS = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".feather": pd.read_feather}


@pytest.mark.parametrize("ending", READERS)
def test_tables_are_those_of_the_python_call(folder, ending):
    if ending != ".csv":
        pytest.importorskip("pyarrow")
    result = explain("--out", f"e{ending}")
    assert result.exit_code == 0, result.output
    _, e = in_python(folder)
    same_tables(READERS[ending](folder / f"e{ending}"), e.to_frame())
    assert "Wrote e" in result.stdout
    assert e.statement() in result.stdout
    assert "Left out columns that the model does not take: granted." in result.stderr
    assert sorted(
        path.name for path in folder.iterdir() if path.suffix != ".py" and path.name != "__pycache__"
    ) == sorted([f"e{ending}", "new.csv", "train.csv"])


def test_cells_that_a_spreadsheet_would_run(folder):
    """With --safe-csv they are texts; numbers, also negative ones, stay numbers."""
    names = ["=1+1", "+x", "-x", "@sum", "\tx", "\rx", "\nx", " =1", "\uff1d1", "plain", "'=1", "x=1"]
    table(12, 1).assign(who=names).to_csv("new.csv", index=False, quoting=csv.QUOTE_ALL)
    assert explain("--out", "plain.csv", "--index", "who").exit_code == 0
    assert explain("--out", "safe.csv", "--index", "who", "--safe-csv").exit_code == 0
    plain, safe = (pd.read_csv(name, dtype={"row": str}, keep_default_na=False) for name in ("plain.csv", "safe.csv"))
    assert "=1+1" in set(plain["row"])
    assert list(safe["row"].unique()) == [f"'{name}" for name in names[:9]] + names[9:]
    pd.testing.assert_frame_equal(safe.drop(columns="row"), plain.drop(columns="row"))
    assert (safe["value"] < 0).any()
    result = explain("--out", "e.json", "--safe-csv")
    assert result.exit_code == 2
    assert "--safe-csv" in result.stderr


def test_json_says_what_the_intervals_promise(folder):
    result = explain("--out", "e.json", "--attribution", "posterior", "--level", "0.8")
    assert result.exit_code == 0, result.output
    _, e = in_python(folder, attribution="posterior", confidence_level=0.8)
    found = json.loads((folder / "e.json").read_text())
    assert found["statement"] == e.statement()
    assert found["promise"] == "value"
    assert found["confidence_level"] == 0.8
    assert found["settings"]["settings"]["n_boundary"] == 60
    same_tables(pd.DataFrame(found["attributions"]), e.to_frame())


def test_saved_explanation_and_fit(folder):
    table(60, 2).to_csv("fresh.csv", index=False)
    result = call(
        "fit", "train.csv", "--model", "credit_model:model", "--calibrate", "fresh.csv", "--out", "g.gpec", *QUICK
    )
    assert result.exit_code == 0, result.output
    assert "mode predict, 60 boundary points, 20 explained rows" in result.stdout
    result = call("explain", "new.csv", "--model", "credit_model:model", "--fitted", "g.gpec", "--out", "e.gpec")
    assert result.exit_code == 0, result.output
    assert "Checked on 60 rows not used in fitting" in result.stdout
    g, _ = in_python(folder)
    e = g.calibrate(table(60, 2)).explain(table(12, 1))
    found = gpec.Explanation.load("e.gpec")
    np.testing.assert_array_equal(found.values, e.values)
    np.testing.assert_allclose(found.upper, e.upper, rtol=0, atol=1e-12)
    other = call("explain", "new.csv", "--model", "credit_model:rate", "--fitted", "g.gpec", "--out", "e2.gpec")
    assert other.exit_code == 0, other.output  # the same answers, so the same model


def test_another_model_than_the_fitted_one_is_refused(folder):
    (folder / "credit_other.py").write_text((folder / "credit_model.py").read_text().replace("1.5", "1.1"))
    assert call("fit", "train.csv", "--model", "credit_model:model", "--out", "g.gpec", *QUICK).exit_code == 0
    result = call("explain", "new.csv", "--model", "credit_other:model", "--fitted", "g.gpec", "--out", "e.csv")
    assert result.exit_code == 1
    assert "not the one that was fitted" in result.stderr
    assert not (folder / "e.csv").exists()


@pytest.mark.parametrize("background", [{}, {"who": range(120)}], ids=["without labels", "with labels"])
def test_rows_keep_their_labels(folder, background):
    result = explain("--out", "e.csv", "--index", "who")
    assert result.exit_code == 1
    assert "new.csv has no column 'who' for the index" in result.stderr
    table(12, 1).assign(who=[f"client {k}" for k in range(12)]).to_csv("new.csv", index=False)
    table(120, 0).assign(**background).to_csv("train.csv", index=False)
    result = explain("--out", "e.csv", "--index", "who")
    assert result.exit_code == 0, result.output
    explained = pd.read_csv("e.csv")
    assert explained["row"].unique().tolist() == [f"client {k}" for k in range(12)]
    assert "who" not in set(explained["feature"])


def test_the_background_may_be_the_data(folder):
    result = call("explain", "train.csv", "--model", "credit_model:rate", "--drop", "granted", "--out", "e.csv", *QUICK)
    assert result.exit_code == 0, result.output
    assert "No --background file: comparing with the rows of train.csv itself." in result.stderr
    assert pd.read_csv("e.csv")["row"].nunique() == 120


def test_text_and_numbers_share_a_column_of_the_output(folder):
    pytest.importorskip("pyarrow")
    (folder / "mixed_model.py").write_text(
        "def rate(X):\n    return 0.2 + 0.6 * (X['town'] == 'ulm') * (X['age'] > 0)\n"
    )
    rng = np.random.default_rng(0)
    mixed = pd.DataFrame({"age": rng.normal(size=80), "town": rng.choice(["ulm", "bonn"], 80)})
    mixed.to_csv("mixed.csv", index=False)
    result = call("explain", "mixed.csv", "--model", "mixed_model:rate", "--out", "e.parquet", *QUICK)
    assert result.exit_code == 0, result.output
    found = pd.read_parquet("e.parquet")
    assert found.loc[found["feature"] == "town", "data"].tolist() == mixed["town"].tolist()
    np.testing.assert_allclose(found.loc[found["feature"] == "age", "data"].astype(float), mixed["age"], atol=1e-9)


def test_trees_are_explained_by_the_quick_explainer(folder):
    xgboost = pytest.importorskip("xgboost")
    X = table(120, 0)
    xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(X, X["age"] > X["debt"]), 4).save_model("m.json")
    result = explain("--out", "e.json", model="m.json")
    assert result.exit_code == 0, result.output
    assert "Explainer: tree." in result.stderr
    assert json.loads((folder / "e.json").read_text())["settings"]["settings"]["explainer"] == "tree"


def test_a_pickle_needs_a_word(folder):
    import joblib
    from sklearn.linear_model import LogisticRegression

    X = table(120, 0)
    joblib.dump(LogisticRegression().fit(X.to_numpy(), X["age"] > 0), "m.joblib")  # without names
    result = explain("--out", "e.csv", model="m.joblib")
    assert result.exit_code == 1
    assert "is a pickle" in result.stderr
    result = explain("--out", "e.csv", "--trust-pickle", "--drop", "granted", model="m.joblib")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(("words", "disable"), [([], None), (["--progress"], False), (["--no-progress"], True)])
def test_progress(folder, words, disable, monkeypatch):
    seen = set()

    class Bar:
        def __init__(self, *, disable, **_):
            seen.add(disable)

        def update(self, amount=1):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr("gpec.runtime.progress.tqdm", Bar)
    result = call("fit", "train.csv", "--model", "credit_model:model", "--out", "g.gpec", *QUICK[:-1], *words)
    assert result.exit_code == 0, result.output
    assert seen - {True} == {disable} - {True}  # the timing before shows none


def test_a_misspelt_label_is_not_taken_for_a_feature(folder):
    result = explain("--out", "e.csv", "--drop", "grantde", model="credit_model:rate")
    assert result.exit_code == 1
    assert "No table has a column 'grantde' to leave out (--drop)." in result.stderr


# Tables


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv", ".parquet", ".feather"])
def test_tables_in_files(tmp_path, ending):
    X = table(5, 0).assign(town="ulm")
    path = tmp_path / f"x{ending}"
    if ending in (".parquet", ".feather"):
        pytest.importorskip("pyarrow")
        (X.to_parquet if ending == ".parquet" else X.to_feather)(path)
    else:
        X.to_csv(path, index=False, sep="\t" if ending == ".tsv" else ",")
    pd.testing.assert_frame_equal(read_table(path), X)


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_tables_without_pyarrow(tmp_path, ending, monkeypatch):
    (tmp_path / f"x.{ending}").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(gpec.errors.MissingExtraError, match=r'pip install "gpec\[files\]"'):
        read_table(tmp_path / f"x.{ending}")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.csv", "a,a\n1,2\n", "several columns named 'a'"),
        ("x.csv", "a,b\n", "has no rows"),
        ("x.csv", "", "cannot be read"),
        ("x.parquet", "nonsense", "cannot be read"),
        ("x.feather", "nonsense", "cannot be read"),
        ("x.xlsx", "nonsense", "not a supported kind of table"),
        (None, "", "There is no file"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, name, content, words):
    if name and name.endswith(("parquet", "feather")):
        pytest.importorskip("pyarrow")
    path = tmp_path / (name or "nowhere.csv")
    if name:
        path.write_text(content)
    with pytest.raises(gpec.errors.GPECError, match=words) as refusal:
        read_table(path)
    assert "\n" not in str(refusal.value)


@pytest.mark.filterwarnings("default:There is nothing to calibrate")
def test_similar_rows_are_explained_where_asked(folder):
    table(60, 2).to_csv("fresh.csv", index=False)
    words = ["--explainer", "exact", "--mode", "explain", "--calibrate", "fresh.csv"]
    result = call("fit", "train.csv", "--model", "credit_model:model", "--out", "g.gpec", *words, *QUICK)
    assert result.exit_code == 0, result.output
    assert "note: There is nothing to calibrate" in result.stderr
    assert "Wrote g.gpec: mode explain, 20 explained rows" in result.stdout
    result = call("explain", "new.csv", "--model", "credit_model:model", "--fitted", "g.gpec", "--out", "e.gpec")
    assert result.exit_code == 0, result.output
    assert "so this is exact for each row" in result.stdout
    e = gpec.Explanation.load("e.gpec")
    g = gpec.GPEC.load("g.gpec", model=in_python(folder)[0].model)
    np.testing.assert_array_equal(e.similar_values, g.explain(table(12, 1)).similar_values)
    posterior = ["--attribution", "posterior", "--out", "e.csv"]
    result = call("explain", "new.csv", "--model", "credit_model:model", "--fitted", "g.gpec", *posterior)
    assert result.exit_code == 1
    assert "fit with mode='predict'" in result.stderr
