"""What must work with the lowest versions that pyproject.toml allows: ``pytest release/smoke.py``."""

import base64
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import dask.dataframe as dd
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import skops.io
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import gpec
from gpec.app import make_app
from gpec.app._server import serve
from gpec.distributed import explain_parquet

mpl.use("Agg")
SMALL = {"n_boundary": 100, "n_explained": 20, "background": 10, "random_state": 0, "progress": False}
X, SPECIES = load_iris(return_X_y=True, as_frame=True)
X = X.sample(frac=1, random_state=0).set_axis(["a", "b", "c", "d"], axis=1)
SPECIES = SPECIES[X.index]
TEXT = X.assign(size=pd.Categorical(np.where(X["a"] > 5.8, "long", "short")))
CODED = make_column_transformer((OneHotEncoder(), ["size"]), remainder="passthrough")
LINEAR = LogisticRegression(max_iter=1000)
# Rows, labels, model and explainer.
CASES = {
    "kernelshap": (X, SPECIES == 1, LINEAR, "kernelshap"),
    "forest": (X, SPECIES, RandomForestClassifier(8, random_state=0), "tree"),
    "boosted trees": (X, SPECIES == 1, GradientBoostingClassifier(n_estimators=8), "tree"),
    "xgboost": (X, SPECIES == 1, xgboost.XGBClassifier(n_estimators=8, max_depth=3), "tree"),
    "regressor": (X, X["c"] * X["d"], RandomForestRegressor(8, random_state=0), "tree"),
    "categories": (TEXT, SPECIES == 1, make_pipeline(CODED, LINEAR), "exact"),
}
# 1 / (1 + exp(b - a)), as skl2onnx writes it.
ONNX = (
    "CAgSCHNrbDJvbm54GgYxLjIwLjAiB2FpLm9ubngoADIAOsECCtwBCgRyb3dzEgVsYWJlbBINcHJvYmFiaWxpdGllcxoQTGluZWFyQ2xhc3NpZmll"
    "ciIQTGluZWFyQ2xhc3NpZmllcioZChBjbGFzc2xhYmVsc19pbnRzQABAAaABByolCgxjb2VmZmljaWVudHM9AACAvz0AAIA/PQAAgD89AACAv6AB"
    "BioZCgppbnRlcmNlcHRzPQAAAIA9AAAAAKABBioSCgttdWx0aV9jbGFzcxgAoAECKh0KDnBvc3RfdHJhbnNmb3JtIghMT0dJU1RJQ6ABAzoKYWku"
    "b25ueC5tbBIYT05OWChMb2dpc3RpY1JlZ3Jlc3Npb24pWhQKBHJvd3MSDAoKCAESBgoACgIIAmIRCgVsYWJlbBIICgYIBxICCgBiHQoNcHJvYmFi"
    "aWxpdGllcxIMCgoIARIGCgAKAggCQg4KCmFpLm9ubngubWwQAUIECgAQD0IECgAQDw=="
)


@pytest.fixture(scope="module")
def forest():
    """A fit of three classes."""
    rows, labels, model, explainer = CASES["forest"]
    return gpec.GPEC(model.fit(rows, labels), explainer, **SMALL).fit(rows[:100])


@pytest.mark.parametrize("case", CASES)
def test_fit_calibrate_explain_save_load(case, tmp_path):
    rows, labels, model, explainer = CASES[case]
    g = gpec.GPEC(model.fit(rows, labels), explainer, mode="predict", **SMALL).fit(rows[:80]).calibrate(rows[80:130])
    e = g.explain(rows[130:])
    predict = getattr(model, "predict_proba", model.predict)(rows[130:])
    expected = predict[:, 1] if predict.ndim == 2 and predict.shape[1] == 2 else predict
    np.testing.assert_allclose(e.values.sum(axis=1) + e.base_values, expected, atol=1e-4)
    assert (e.lower <= e.values).all()
    assert (e.values <= e.upper).all()
    assert (e.upper - e.lower).max() > 0
    assert "calibrated on 50 rows" in e.statement()
    g.save(tmp_path / "g.gpec")
    again = gpec.GPEC.load(tmp_path / "g.gpec", model=model).explain(rows[130:])
    np.testing.assert_array_equal(again.lower, e.lower)
    e.save(tmp_path / "e.gpec")
    np.testing.assert_array_equal(gpec.Explanation.load(tmp_path / "e.gpec").upper, e.upper)


@pytest.mark.parametrize("kind", ["waterfall", "bars", "summary", "beeswarm", "scatter"])
def test_plots(forest, kind, tmp_path):
    e = forest.explain(X[100:])[:, :, 1]
    part = {"waterfall": e[0], "bars": e[0], "scatter": e["c"]}.get(kind, e)
    axes = getattr(gpec.plots, kind)(part)
    axes.figure.savefig(tmp_path / "plot.png")
    mpl.pyplot.close("all")
    assert (tmp_path / "plot.png").stat().st_size > 5_000


def test_plots_of_a_fit(forest):
    gpec.plots.boundary(forest, output=1, n_grid=20)
    gpec.plots.heatmap(forest, "c", output=1, n_grid=20)
    mpl.pyplot.close("all")


def test_report(forest, tmp_path):
    forest.explain(X[100:]).to_html(tmp_path / "report.html", gpec=forest)
    assert "in 95% of cases the similar row" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_page_answers_to_this_machine_only():
    with serve(make_app().server, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        try:
            with urllib.request.urlopen(f"{address}_dash-layout") as answer:
                assert b"lam" in answer.read()
            foreign = urllib.request.Request(address, headers={"Host": "evil.example"})
            with pytest.raises(urllib.error.HTTPError, match="400"):
                urllib.request.urlopen(foreign)
        finally:
            server.shutdown()


def test_commands(tmp_path):
    xgboost.train({"max_depth": 3}, xgboost.DMatrix(X[:100], SPECIES[:100] == 1), 8).save_model(tmp_path / "model.ubj")
    X[:100].to_csv(tmp_path / "train.csv", index=False)
    X[100:].to_csv(tmp_path / "new.csv", index=False)
    small = ("--model-output", "value", "--n-boundary", "100", "--n-explained", "20")
    for words in (
        ("fit", "train.csv", "--out", "fit.gpec", *small),
        ("explain", "new.csv", "--out", "new.parquet", "--fitted", "fit.gpec"),
        ("report", "new.csv", "--out", "new.html", "--fitted", "fit.gpec"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "gpec", *words, "--model", "model.ubj"], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    assert len(pd.read_parquet(tmp_path / "new.parquet")) == 50 * 4
    assert (tmp_path / "new.html").stat().st_size > 100_000


def test_model_files(tmp_path):
    (tmp_path / "model.onnx").write_bytes(base64.b64decode(ONNX))
    pair = X[["a", "b"]].to_numpy(np.float32)
    onnx = gpec.models.load_model(tmp_path / "model.onnx")
    np.testing.assert_allclose(np.asarray(onnx(pair))[:, 1], 1 / (1 + np.exp(pair[:, 1] - pair[:, 0])), atol=1e-6)
    skops.io.dump(LINEAR.fit(X, SPECIES == 1), tmp_path / "model.skops")
    found = gpec.models.load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(found.predict_proba(X), LINEAR.predict_proba(X))


def test_tables_and_dask(forest, tmp_path):
    X[:20].to_feather(tmp_path / "rows.feather")
    (tmp_path / "rows").mkdir()
    X[100:].to_parquet(tmp_path / "rows" / "a.parquet")
    assert gpec.data.read_table(tmp_path / "rows.feather").shape == (20, 4)
    local = forest.explain(X[100:]).to_frame()
    lazy = forest.explain(dd.from_pandas(X[100:], npartitions=3, sort=False)).compute()
    pd.testing.assert_frame_equal(lazy.reset_index(drop=True), local, check_dtype=False)
    explain_parquet(forest, tmp_path / "rows", tmp_path / "out")
    written = pd.read_parquet(tmp_path / "out")
    np.testing.assert_array_equal(written["lower"], local["lower"])


def test_superpixels():
    quarters = np.kron([[0.0, 1.0], [2.0, 3.0]], np.ones((8, 8)))
    assert len(np.unique(gpec.images.superpixels(quarters, 4))) == 4
