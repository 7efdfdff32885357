"""A Dask frame or array explained: the lines of the local call, when they are asked for."""

import pickle
import time

import numpy as np
import pandas as pd
import pytest

import gpec
from gpec.errors import InputError, MissingExtraError, NotFittedError, ParameterTypeError
from gpec.explainers import ExactShapley
from small_models import CountingModel, curved, slopes, slopes_of_three, three_classes

cloudpickle, dask = pytest.importorskip("cloudpickle"), pytest.importorskip("dask")
da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
SCHEDULERS = ["synchronous", "threads"]


def same(lazy, local, scheduler="synchronous"):
    pd.testing.assert_frame_equal(
        lazy.compute(scheduler=scheduler).reset_index(drop=True), local.to_frame(), check_exact=True
    )
    assert lazy.dtypes.equals(local.to_frame().dtypes)


@pytest.mark.parametrize("attribution", ["explainer", "posterior"])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_bits_and_labels_of_the_local_call(fitted, rows, attribution, scheduler):
    frame = dd.from_pandas(rows, npartitions=4)
    lazy = fitted.explain(frame, attribution=attribution, confidence_level=0.9)
    assert lazy.npartitions == frame.npartitions
    same(lazy, fitted.explain(rows, attribution=attribution, confidence_level=0.9), scheduler)


@pytest.mark.parametrize(
    "index",
    [pd.RangeIndex(101), pd.Index([f"r{i:03d}" for i in range(101)]), pd.date_range("2020-01-01", periods=101)],
    ids=["numbers", "texts", "dates"],
)
def test_labels_of_any_kind(fitted, rows, index):
    labelled = rows.set_index(index)
    same(fitted.explain(dd.from_pandas(labelled, npartitions=3)), fitted.explain(labelled))


def test_several_classes(make_auto, rows):
    g = make_auto(three_classes, slopes_of_three).fit(rows)
    same(g.explain(dd.from_pandas(rows, npartitions=3)), g.explain(rows))


def test_text_and_categories(make_auto, mixed):
    g = make_auto(mixed.model, "shapley_sampling", n_explained=6, n_boundary=40).fit(mixed.frame)
    some = mixed.frame[:21]
    lazy = g.explain(dd.from_pandas(some, npartitions=2), attribution="posterior")
    same(lazy, g.explain(some, attribution="posterior"))


def test_arrays_number_their_rows(make_auto, rows):
    X = rows.to_numpy()
    g = make_auto().fit(X)
    same(g.explain(da.from_array(X, chunks=(30, 2))), g.explain(X))


def test_nothing_is_computed_before_it_is_asked_for(make_auto, rows):
    explained = []

    def explainer(X):
        explained.append(len(X))
        return slopes(X)

    g = make_auto(explainer=explainer).fit(rows)
    before = len(explained)
    lazy = g.explain(dd.from_pandas(rows, npartitions=4))
    assert len(explained) == before
    assert lazy.partitions[1].compute(scheduler="synchronous")["row"].iloc[0] == rows.index[26]


def test_partitions_without_rows(fitted, rows):
    frame = dd.from_pandas(rows, npartitions=4)
    some = frame[frame["a"] > rows["a"].quantile(0.98)]
    lazy = fitted.explain(some)
    same(lazy, fitted.explain(rows[rows["a"] > rows["a"].quantile(0.98)]))
    none = fitted.explain(frame[frame["a"] > 100.0]).compute(scheduler="synchronous")
    assert len(none) == 0
    assert none.dtypes.equals(lazy.dtypes)


def test_the_users_model_is_not_touched(make_auto, rows):
    model = CountingModel(curved)
    g = make_auto(model).fit(rows)
    before, settings = model.n_calls, g.get_params()
    lazy = g.explain(dd.from_pandas(rows, npartitions=2), attribution="posterior")
    asked = model.n_calls
    lazy.compute(scheduler="threads")
    assert asked - before <= 1  # one row, to see how answers look
    assert model.n_calls == asked
    assert g.get_params() == settings


# What is refused, before anything runs


def test_wrong_columns_at_once(fitted, rows):
    with pytest.raises(InputError, match=r"missing: \['c'\], unexpected: \['z'\]"):
        fitted.explain(dd.from_pandas(rows.rename(columns={"c": "z"}), npartitions=2))


def test_wrong_calls(fitted, rows, make_auto, tmp_path):
    frame = dd.from_pandas(rows, npartitions=2)
    with pytest.raises(InputError, match="attribution='guess' is not one of"):
        fitted.explain(frame, attribution="guess")
    with pytest.raises(InputError, match="confidence_level"):
        fitted.explain(frame, confidence_level=2)
    with pytest.raises(InputError, match="checkpoint is for rows in memory"):
        fitted.explain(frame, checkpoint=tmp_path / "new")
    with pytest.raises(NotFittedError, match=r"^This GPEC is not fitted yet"):
        make_auto().explain(frame)
    with pytest.raises(ParameterTypeError, match="pass a Dask DataFrame or array"):
        fitted.explain(frame["a"])
    with pytest.raises(InputError, match="compute_chunk_sizes"):
        fitted.explain(frame.to_dask_array())
    with pytest.raises(
        ParameterTypeError,
        match=r"X is a Dask DataFrame, which only explain accepts",
    ):
        make_auto().fit(frame)


def test_no_explainer(make_auto, rows):
    g = make_auto(explainer=None).fit(rows, attributions=slopes(rows))
    frame = dd.from_pandas(rows, npartitions=2)
    same(g.explain(frame), g.explain(rows))
    other = dd.from_pandas(rows.assign(b=rows["b"] + (rows.index == rows.index[7])), npartitions=2)
    with pytest.raises(InputError, match=r"row 7 .*is not among the \d+ rows whose attributions were given to fit"):
        g.explain(other).compute()
    same(g.explain(frame, attribution="posterior"), g.explain(rows, attribution="posterior"))


def test_dask_that_is_not_there(fitted, rows, monkeypatch):
    frame = dd.from_pandas(rows, npartitions=2)
    monkeypatch.setitem(__import__("sys").modules, "dask.dataframe", None)
    with pytest.raises(MissingExtraError, match=r'pip install "gpec\[dask\]"'):
        fitted.explain(frame)


# Rows that cannot be explained

BAD = {
    "missing value": (
        lambda frame: frame.assign(b=frame["b"].where(frame.index != 1_050)),
        "missing value in column 'b'",
    ),
    "infinite": (
        lambda frame: frame.assign(b=frame["b"].where(frame.index != 1_050, np.inf)),
        "X is infinite in column",
    ),
    "text": (
        lambda frame: frame.astype({"b": object}).assign(b=lambda f: f["b"].where(f.index != 1_050, "high")),
        "'b' is not numeric \\('high' has the type str\\)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_the_error_names_partition_and_row(fitted, rows, case):
    spoil, message = BAD[case]
    with dask.config.set({"dataframe.convert-string": False}):
        lazy = fitted.explain(dd.from_pandas(spoil(rows), npartitions=4))
    with pytest.raises(InputError, match=rf"^Partition 1, row 24 \(labelled 1050\): .*{message}"):
        lazy.compute(scheduler="synchronous")


@pytest.mark.parametrize("case", BAD)
def test_reasons_are_kept(fitted, rows, case):
    spoil, message = BAD[case]
    with dask.config.set({"dataframe.convert-string": False}):
        frame = dd.from_pandas(spoil(rows), npartitions=4)
    lazy = gpec.distributed.explain(fitted, frame, errors="keep")
    found = lazy.compute(scheduler="synchronous").reset_index(drop=True)
    assert found.dtypes.equals(lazy.dtypes)
    expected = fitted.explain(rows).to_frame()
    bad = expected["row"] == 1_050
    assert found["error"].notna().equals(bad)
    assert found["row"].equals(expected["row"])
    assert found["feature"].equals(expected["feature"])
    assert found.loc[bad, "error"].str.contains(message).all()
    assert found.loc[bad, ["value", "lower", "upper", "std"]].isna().all(axis=None)
    pd.testing.assert_frame_equal(
        found[~bad].drop(columns="error").reset_index(drop=True), expected[~bad].reset_index(drop=True)
    )


def moody(X):
    """A model that fails on rows with a large first feature."""
    if (np.asarray(X, dtype=float)[:, 0] > 2.2).any():
        raise ValueError("I do not go there")
    return curved(X)


def test_a_row_that_makes_the_model_fail(make_auto, rows):
    tame = rows.clip(-2, 2)
    g = make_auto(moody).fit(tame)
    wild = tame.copy()
    wild.iloc[[60, 99], 0] = 2.5
    frame = dd.from_pandas(wild, npartitions=4)
    with pytest.raises(
        gpec.errors.ModelCallError,
        match=r"^Partition 3, row 23 \(labelled 1099\): The model raised ValueError: I do not go there",
    ):
        g.explain(frame).partitions[3].compute(scheduler="synchronous")
    found = gpec.distributed.explain(g, frame, errors="keep").compute(scheduler="threads")
    assert found.loc[found["error"].notna(), "row"].unique().tolist() == [1_060, 1_099]
    assert found["error"].dropna().unique().tolist() == ["The model raised ValueError: I do not go there"]
    good = found[found["error"].isna()].drop(columns="error").reset_index(drop=True)
    expected = g.explain(tame).to_frame()
    pd.testing.assert_frame_equal(good, expected[~expected["row"].isin([1_060, 1_099])].reset_index(drop=True))


def test_a_model_that_is_gone_is_no_fault_of_the_rows(make_auto, rows):
    """With errors="keep" a dead model would fill the result with its complaint."""

    class Mortal:
        alive = True

        def __call__(self, X):
            if not self.alive:
                raise ConnectionError("no answer")
            return curved(X)

    model = Mortal()
    g = make_auto(model).fit(rows)
    lazy = gpec.distributed.explain(g, dd.from_pandas(rows, npartitions=2), errors="keep")
    assert lazy["error"].count().compute(scheduler="synchronous") == 0
    model.alive = False
    with pytest.raises(gpec.errors.ModelCallError, match="no answer"):
        gpec.distributed.explain(g, dd.from_pandas(rows, npartitions=2), errors="keep")


def test_wrong_word_for_errors(fitted, rows):
    with pytest.raises(InputError, match="errors='skip' is not one of"):
        gpec.distributed.explain(fitted, dd.from_pandas(rows, npartitions=2), errors="skip")


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2020-01-01", periods=101, tz="Europe/Paris"),
        pd.period_range("2020-01", periods=101, freq="M"),
        pd.CategoricalIndex([f"r{i:03d}" for i in range(101)]),
        pd.MultiIndex.from_product([range(101), ["a"]]),
    ],
    ids=["zones", "periods", "categories", "pairs"],
)
def test_types_are_known_beforehand(fitted, rows, index):
    labelled = rows.set_index(index) if not isinstance(index, pd.MultiIndex) else rows.set_axis(index)
    parts = [dask.delayed(labelled[:50]), dask.delayed(labelled[50:])]
    frame = dd.from_delayed(parts, meta=labelled[:0], verify_meta=False)
    lazy = fitted.explain(frame, attribution="posterior")
    assert lazy.dtypes.equals(lazy.compute(scheduler="synchronous").dtypes)


def test_what_is_no_collection(fitted, rows):
    with pytest.raises(
        ParameterTypeError, match=r"X is a DataFrame; pass a Dask DataFrame or array, or call g.explain"
    ):
        gpec.distributed.explain(fitted, rows)
    with pytest.raises(ParameterTypeError, match=r"X is a Delayed\w*; pass"):
        fitted.explain(dask.delayed(rows))
    lying = dd.from_delayed([dask.delayed(rows.to_numpy())], meta=rows[:0], verify_meta=False)
    with pytest.raises(InputError, match="Partition 0 is a ndarray, not the type that the Dask collection declares"):
        fitted.explain(lying).compute(scheduler="synchronous")


class StrangeError(Exception):
    """It can be sent, and cannot be received."""

    def __init__(self, code, reason):
        super().__init__(f"{code}: {reason}")


def test_an_error_that_cannot_travel_becomes_text(make_auto, rows):
    def model(X):
        if np.asarray(X)[:, 0].max() > 1e3:
            raise StrangeError(7, "too large")
        return curved(X)

    g = make_auto(model, slopes).fit(rows)
    far = dd.from_pandas(rows.assign(a=rows["a"].where(rows.index != 1_030, 1e6)), npartitions=3)
    with pytest.raises(gpec.errors.ModelCallError, match=r"labelled 1030\).*StrangeError: 7: too large") as caught:
        g.explain(far, attribution="posterior").compute(scheduler="synchronous")
    again = pickle.loads(cloudpickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    causes = []
    error = caught.value
    while error is not None:
        causes.append(error)
        error = error.__cause__
    assert all(pickle.loads(cloudpickle.dumps(cause)) for cause in causes)
    assert "StrangeError: 7: too large" in str(causes[-1])


@pytest.mark.parametrize("several", [False, True])
def test_explained_similar_rows_give_the_local_bounds(make_exact, rows, several):
    g = make_exact(*((three_classes, slopes_of_three) if several else ())).fit(rows)
    local = g.explain(rows, confidence_level=0.8)
    same(g.explain(dd.from_pandas(rows, npartitions=3), confidence_level=0.8), local, "threads")
    assert local.similar_values is not None


class SlowlyBound(ExactShapley):
    def bind(self, model, background):
        super().bind(model, background)
        time.sleep(0.2)
        self.ready = True

    def _explain(self, Z, seeds):
        assert self.ready
        return super()._explain(Z, seeds)


def test_the_first_of_several_threads_binds_the_explainer_of_a_loaded_fit(rows, tmp_path):
    g = gpec.GPEC(curved, ExactShapley(), mode="explain", background=5, random_state=0).fit(rows)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=curved, explainer=SlowlyBound())
    same(loaded.explain(dd.from_pandas(rows, npartitions=3)), g.explain(rows), "threads")
