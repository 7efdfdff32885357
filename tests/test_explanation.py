"""The result object: shapes, bounds, selection by number and name, frames, shap."""

import dataclasses
import re
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import shap
from scipy.stats import norm

from explanation_helpers import CLASSES, NAMES, explanation
from gpec import Explanation
from gpec.errors import InputError, ParameterTypeError


@pytest.fixture
def binary():
    return explanation()


@pytest.fixture
def several():
    return explanation(classes=4)


# Bounds


@pytest.mark.parametrize("classes", [None, 4])
def test_shapes(classes):
    e = explanation(classes=classes)
    shape = (5, 3) if classes is None else (5, 3, 4)
    assert e.shape == shape
    assert len(e) == 5
    for name in ("values", "variance", "std", "lower", "upper", "width", "model_variance", "noise_variance"):
        assert getattr(e, name).shape == shape, name


def test_variance_is_the_sum_of_its_parts(binary):
    assert (binary.variance == binary.model_variance + binary.noise_variance).all()
    np.testing.assert_allclose(binary.std**2, binary.variance, rtol=1e-15)


def test_the_earlier_name_of_the_models_part_of_the_variance_warns(binary):
    with pytest.warns(FutureWarning, match="boundary_variance is now called model_variance"):
        earlier = binary.boundary_variance
    assert earlier is binary.model_variance


@pytest.mark.parametrize("level", [1e-300, 0.1, 0.5, 0.68, 0.95, 0.999, 1 - 1e-12, np.nextafter(1, 0)])
def test_interval(binary, level):
    lower, upper = binary.interval(level)
    assert np.isfinite(lower).all()
    assert np.isfinite(upper).all()
    assert (lower <= binary.values).all()
    assert (binary.values <= upper).all()
    if level < 1 - 1e-9:
        mass = norm.cdf((upper - binary.values) / binary.std) - norm.cdf((lower - binary.values) / binary.std)
        np.testing.assert_allclose(mass, level, rtol=1e-9, atol=1e-15)


def test_bounds_are_those_of_the_confidence_level():
    e = explanation(confidence_level=0.8)
    assert (e.lower == e.interval(0.8)[0]).all()
    assert (e.upper == e.interval(0.8)[1]).all()
    assert (e.width == e.upper - e.lower).all()
    np.testing.assert_allclose(e.width, 2 * 1.2815515655446004 * e.std, rtol=1e-12)


def test_no_variance_gives_a_point():
    zero = np.zeros((5, 3))
    e = explanation(model_variance=zero, noise_variance=zero)
    for level in (0.5, np.nextafter(1, 0)):
        lower, upper = e.interval(level)
        assert (lower == e.values).all()
        assert (upper == e.values).all()


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, np.nan, np.inf])
def test_interval_refuses_a_level_that_is_none(binary, level):
    with pytest.raises(InputError, match="confidence_level"):
        binary.interval(level)


@pytest.mark.parametrize("level", ["high", None, True, [0.9]])
def test_interval_refuses_a_level_of_the_wrong_type(binary, level):
    if level is None:
        assert (binary.interval(None)[0] == binary.lower).all()
        return
    with pytest.raises(ParameterTypeError, match="confidence_level"):
        binary.interval(level)


# Selection


def assert_selects(e, key, expected):
    """``e[key]`` holds what NumPy's ``expected`` holds of each array."""
    part = e[key]
    for name in ("values", "model_variance", "noise_variance", "explainer_variance"):
        wanted = getattr(e, name)[expected]
        assert getattr(part, name).shape == wanted.shape, name
        assert (getattr(part, name) == wanted).all(), name
    np.testing.assert_array_equal(part.variance, e.variance[expected])
    np.testing.assert_array_equal(part.lower, e.lower[expected])
    assert part.diagnostics is e.diagnostics
    assert part.confidence_level == e.confidence_level
    return part


BINARY_SELECTIONS = {
    "row": (2, np.s_[2]),
    "last row": (-1, np.s_[-1]),
    "numpy integer": (np.int64(3), np.s_[3]),
    "slice": (slice(1, 4), np.s_[1:4]),
    "slice with step": (slice(None, None, -2), np.s_[::-2]),
    "list": ([3, 0, 0], np.s_[[3, 0, 0]]),
    "array": (np.array([4, -5]), np.s_[[4, 0]]),
    "mask": ([True, False, True, False, False], np.s_[[0, 2]]),
    "array mask": (np.array([False] * 4 + [True]), np.s_[[4]]),
    "nothing": ([], np.s_[[]]),
    "feature": ((slice(None), "bmi"), np.s_[:, 1]),
    "feature by number": ((slice(None), 2), np.s_[:, 2]),
    "features": ((slice(None), ["dose", "age"]), np.s_[:, [2, 0]]),
    "names and numbers": ((slice(None), ["dose", 0]), np.s_[:, [2, 0]]),
    "array of names": ((slice(None), np.array(["dose", "age"])), np.s_[:, [2, 0]]),
    "index of names": ((slice(None), pd.Index(["dose", "age"])), np.s_[:, [2, 0]]),
    "tuple of names": ((slice(None), ("dose", "age")), np.s_[:, [2, 0]]),
    "slice of names": ((slice(None), slice("bmi", None)), np.s_[:, 1:]),
    "mask of features": ((slice(None), [True, False, True]), np.s_[:, [0, 2]]),
    "row and feature": ((1, "dose"), np.s_[1, 2]),
    "lists along both axes": (([0, 1, 2], ["bmi", "age"]), np.ix_([0, 1, 2], [1, 0])),
    "ellipsis": (..., np.s_[...]),
    "ellipsis first": ((..., "bmi"), np.s_[:, 1]),
    "ellipsis last": ((3, ...), np.s_[3]),
}


@pytest.mark.parametrize("case", BINARY_SELECTIONS)
def test_selection_of_two_classes(binary, case):
    key, expected = BINARY_SELECTIONS[case]
    part = assert_selects(binary, key, expected)
    assert (part.data == binary.data[expected]).all()
    rows = expected[0] if isinstance(expected, tuple) else expected
    rows = np.ravel(rows) if isinstance(rows, np.ndarray) else rows
    assert (part.base_values == binary.base_values[rows]).all()
    assert part.output_names == "sick"


SEVERAL_SELECTIONS = {
    "row": (2, np.s_[2], NAMES, CLASSES),
    "feature": ((slice(None), "bmi"), np.s_[:, 1], "bmi", CLASSES),
    "class": ((..., "virginica"), np.s_[:, :, 2], NAMES, "virginica"),
    "classes": ((slice(None), slice(None), ["other", "setosa"]), np.s_[:, :, [3, 0]], NAMES, ["other", "setosa"]),
    "all three": ((0, "bmi", "setosa"), np.s_[0, 1, 0], "bmi", "setosa"),
    "rows, features, class": (
        ([4, 1], ["dose", "age"], "setosa"),
        (*np.ix_([4, 1], [2, 0]), 0),
        ["dose", "age"],
        "setosa",
    ),
    "feature and class": ((slice(1, 3), "age", -1), np.s_[1:3, 0, 3], "age", "other"),
    "ellipsis between": ((0, ..., "setosa"), np.s_[0, :, 0], NAMES, "setosa"),
    "ellipsis of nothing": ((0, 1, ..., 2), np.s_[0, 1, 2], "bmi", "virginica"),
}


@pytest.mark.parametrize("case", SEVERAL_SELECTIONS)
def test_selection_of_several_classes(several, case):
    key, expected, features, outputs = SEVERAL_SELECTIONS[case]
    part = assert_selects(several, key, expected)
    assert part.feature_names == features
    assert part.output_names == outputs


def test_base_values_follow_rows_and_classes(several):
    assert (several[[3, 1], :, "other"].base_values == several.base_values[[3, 1], 3]).all()
    assert several[2, "age", "setosa"].base_values == several.base_values[2, 0]
    assert (several[:, "age"].base_values == several.base_values).all()
    assert (several[:, :, ["other", "setosa"]].base_values == several.base_values[:, [3, 0]]).all()


def test_data_follow_rows_and_features(several):
    assert (several[[3, 1], ["dose", "age"], 0].data == several.data[np.ix_([3, 1], [2, 0])]).all()
    assert (several[2].data == several.data[2]).all()
    assert several[2, "bmi"].data == several.data[2, 1]


def test_selection_can_be_repeated(several):
    once = several[1:, ["dose", "age"], "other"]
    assert once[:, "dose"].shape == (4,)
    twice = once[2]["age"]
    assert twice.values == several.values[3, 0, 3]
    assert twice.axes == ()
    assert float(twice.std) == several.std[3, 0, 3]
    assert len(once[2]) == 2


def test_absent_arrays_stay_absent():
    e = explanation(explainer_variance=None, base_values=None)[1:, "age"]
    assert e.explainer_variance is None
    assert e.base_values is None


def test_selected_part_does_not_share_names(binary):
    part = binary[:, ["age", "bmi"]]
    part.feature_names.append("x")
    assert binary.feature_names == NAMES


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ((0, "weight"), ["No feature is called 'weight'", *NAMES]),
        ((slice(None), ["age", "weight"]), ["No feature is called 'weight'", *NAMES]),
        ((slice(None), slice("weight", None)), ["No feature is called 'weight'", *NAMES]),
        ((0, 0, "tulip"), ["No output is called 'tulip'", *CLASSES]),
        (["age", "bmi"], ["Rows have no names", "[:, 'age']"]),
    ],
)
def test_wrong_name_lists_the_names(several, key, words):
    with pytest.raises(InputError, match=re.escape(words[0])) as error:
        several[key]
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("key", [5, -6, (0, 3), (0, 0, 4), ([0, 5],), (slice(None), [-4])])
def test_out_of_range(several, key):
    with pytest.raises(IndexError, match=r"out of range; there are \d"):
        several[key]


@pytest.mark.parametrize(
    "key", [1.5, None, True, {"a"}, [1.5], np.zeros((2, 2), int), (..., ...), ([None],), np.array(1.0)]
)
def test_selection_by_nonsense(several, key):
    with pytest.raises(ParameterTypeError, match="Cannot select"):
        several[key]


def test_too_many_indices(binary):
    with pytest.raises(InputError, match="3 indices for an explanation with the axes"):
        binary[0, 0, 0]
    with pytest.raises(InputError, match="indices"):
        binary[0, 0, ..., 0]


def test_mask_of_the_wrong_length(binary):
    with pytest.raises(InputError, match="mask of rows has 2 entries; there are 5"):
        binary[[True, False]]


# Frozen, and how it shows itself


def test_frozen(binary):
    for field in dataclasses.fields(Explanation):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{field.name}'"):
            setattr(binary, field.name, None)


def test_repr(binary, several):
    assert repr(binary).splitlines()[0] == f"Explanation(5 rows, 3 features; mean std {binary.std.mean():.3g})"
    assert repr(several).startswith("Explanation(5 rows, 3 features, 4 outputs; mean std ")
    assert repr(several[0, 0, 0]).startswith("Explanation(one value; mean std ")
    assert repr(binary[[]]) == "Explanation(0 rows, 3 features)"


def test_print_of_one_row_shows_attributions(binary, several):
    lines = str(binary[2]).splitlines()
    assert lines[0].startswith("Explanation(3 features; mean std ")
    assert lines[1].split() == ["feature", "data", "value", "lower", "upper"]
    assert len(lines) == 5
    order = np.argsort(-np.abs(binary.values[2]))
    for line, j in zip(lines[2:], order, strict=True):
        name, *numbers = line.split()
        assert name == NAMES[j]
        parts = (binary.data, binary.values, binary.lower, binary.upper)
        np.testing.assert_allclose([float(number) for number in numbers], [part[2, j] for part in parts], atol=0.006)
    assert str(several[2, :, "other"]).count("\n") == 4
    assert str(several[2]).splitlines()[1].split()[:2] == ["feature", "output"]
    assert "\n" not in str(binary[2, []])


def test_print_of_one_row_leaves_out_the_smallest():
    values = np.arange(1.0, 41.0).reshape(2, 20)
    like = {name: np.ones((2, 20)) for name in ("model_variance", "noise_variance", "explainer_variance", "data")}
    e = explanation(n=2, values=values, feature_names=[f"f{j}" for j in range(20)], **like)
    lines = str(e[0]).splitlines()
    assert [line.split()[0] for line in lines[2:-1]] == [f"f{j}" for j in range(19, 7, -1)]
    assert lines[-1] == "... and 8 smaller ones"


def test_print_of_one_row_with_texts():
    data = np.array([["red", np.nan, True]] * 5, dtype=object)
    shown = str(explanation(data=data)[0])
    assert "red" in shown
    assert "True" in shown
    assert "missing" in shown


@pytest.mark.parametrize("classes", [None, 4])
def test_name_of_a_feature_alone(classes):
    e = explanation(classes=classes)
    assert e["bmi"].values.tobytes() == e[:, "bmi"].values.tobytes()
    assert e["bmi"].axes == e[:, "bmi"].axes
    assert e["bmi"].feature_names == "bmi"
    assert e[1]["bmi"].values.tobytes() == e[1, "bmi"].values.tobytes()
    with pytest.raises(InputError, match=r"No feature is called 'BMI'; names are \['age'"):
        e["BMI"]


# Names of rows


LABELS = {
    "texts": pd.Index(["ann", "bob", "cy", "dee", "eve"]),
    "numbers": pd.Index([50, 40, 30, 20, 10]),
    "dates": pd.date_range("2020-03-01", periods=5),
    "pairs": pd.MultiIndex.from_product([["u"], range(5)]),
    "shifted": pd.RangeIndex(7, 12),
    "every other": pd.RangeIndex(0, 10, 2),
    "twice": pd.Index(["a", "a", "b", "b", "c"]),
}


@pytest.mark.parametrize("case", LABELS)
def test_frame_keeps_the_index(tmp_path, make, X, case):
    frame = pd.DataFrame(X[:5], columns=["a", "b", "c"], index=LABELS[case])
    e = make().fit(X).explain(frame.to_numpy())
    assert e.row_names is None
    assert e.to_frame()["row"].tolist() == np.repeat(np.arange(5), 3).tolist()
    e = make().fit(pd.DataFrame(X, columns=["a", "b", "c"])).explain(frame)
    table = e.to_frame()
    assert table["row"].tolist() == [label for label in LABELS[case] for _ in range(3)]
    np.testing.assert_array_equal(table["value"], e.values.ravel())
    part = e[[3, 1], "b"].to_frame()
    assert part["row"].tolist() == [LABELS[case][3], LABELS[case][1]]
    assert "row" not in e[2].to_frame()
    e.save(tmp_path / "e")
    loaded = Explanation.load(tmp_path / "e").to_frame()["row"]
    text = case in ("dates", "pairs")  # a file holds these as text
    assert loaded.tolist() == [str(label) if text else label for label in table["row"]]
    e[2].save(tmp_path / "one")
    name = Explanation.load(tmp_path / "one").row_names
    assert name == (str(LABELS[case][2]) if text else LABELS[case][2])


def test_file_of_dates_and_missing_values(tmp_path):
    data = np.array([[pd.Timestamp("2020-03-01"), pd.NA, pd.Timedelta("1h")], [pd.NaT, 2, None]], dtype=object)
    explanation(n=2, data=data).save(tmp_path / "e")
    loaded = Explanation.load(tmp_path / "e").data
    assert loaded.shape == (2, 3)
    assert loaded[0, 0] == "2020-03-01 00:00:00"
    assert loaded[0, 2] == "0 days 01:00:00"
    assert np.isnan([loaded[0, 1], loaded[1, 0]]).all()
    assert loaded[1, 1:].tolist() == [2, None]


def test_index_that_only_numbers_the_rows(make, X):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    e = make().fit(frame).explain(frame[:4])
    assert e.row_names is None
    assert e.to_frame()["row"].tolist() == np.repeat(np.arange(4), 3).tolist()


def test_rooms_that_are_there_after_import(one_process_environment):
    """In a fresh process, and matplotlib is not loaded before something is to be drawn."""
    code = """
import sys, gpec
assert gpec.metrics.coverage([0.0], [-1.0], [1.0]) == 1.0
assert "matplotlib" not in sys.modules
assert callable(gpec.plots.bars)
try:
    gpec.nonsense
except AttributeError as error:
    assert "nonsense" in str(error)
else:
    raise SystemExit("no AttributeError")
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    subprocess.run(command, check=True, timeout=120, env=one_process_environment)  # noqa: S603


# Frames


def test_frame_of_two_classes(binary):
    frame = binary.to_frame()
    columns = ["row", "feature", "output", "data", "value", "lower", "upper", "std"]
    assert list(frame.columns) == [*columns, "model_variance", "noise_variance"]
    assert len(frame) == 15
    assert (frame["output"] == "sick").all()
    for row in range(5):
        for j, name in enumerate(NAMES):
            line = frame[(frame["row"] == row) & (frame["feature"] == name)]
            assert len(line) == 1
            line = line.iloc[0]
            assert line["data"] == binary.data[row, j]
            assert line["value"] == binary.values[row, j]
            assert line["lower"] == binary.lower[row, j]
            assert line["upper"] == binary.upper[row, j]
            assert line["std"] == binary.std[row, j]
            assert line["model_variance"] == binary.model_variance[row, j]
            assert line["noise_variance"] == binary.noise_variance[row, j]


def test_frame_of_several_classes(several):
    frame = several.to_frame()
    assert len(frame) == 60
    line = frame[(frame["row"] == 3) & (frame["feature"] == "dose") & (frame["output"] == "virginica")].iloc[0]
    assert line["value"] == several.values[3, 2, 2]
    assert line["data"] == several.data[3, 2]


@pytest.mark.parametrize(
    ("key", "length", "columns"),
    [
        (np.s_[2], 12, {"feature", "output"}),
        (np.s_[:, "age"], 20, {"row", "feature", "output"}),
        (np.s_[:, :, "other"], 15, {"row", "feature", "output"}),
        (np.s_[2, "age"], 4, {"feature", "output"}),
        (np.s_[2, "age", "other"], 1, {"feature", "output"}),
        (np.s_[[]], 0, {"row", "feature", "output"}),
    ],
)
def test_frame_of_a_part(several, key, length, columns):
    part = several[key]
    frame = part.to_frame()
    assert len(frame) == length
    assert set(frame.columns) & {"row", "feature", "output"} == columns
    np.testing.assert_array_equal(frame["value"], part.values.ravel())
    if isinstance(part.feature_names, str):
        assert (frame["feature"] == "age").all()


def test_frame_keeps_texts():
    data = np.array([["red", 1.5, True]] * 5, dtype=object)
    frame = explanation(data=data).to_frame()
    assert frame["data"].tolist()[:3] == ["red", 1.5, True]


# shap


def test_shap_of_two_classes(binary):
    s = binary.to_shap()
    assert isinstance(s, shap.Explanation)
    assert (s.values == binary.values).all()
    assert (s.base_values == binary.base_values).all()
    assert (s.data == binary.data).all()
    assert s.feature_names == NAMES
    assert (s.lower_bounds == binary.lower).all()
    assert (s.upper_bounds == binary.upper).all()
    assert (s.error_std == binary.std).all()
    assert (s[2].lower_bounds == binary.lower[2]).all()
    assert s[2].base_values == binary.base_values[2]


def test_shap_of_several_classes(several):
    s = several.to_shap()
    assert s.output_names == CLASSES
    assert (s[1, :, 2].values == several.values[1, :, 2]).all()
    assert (s[1, :, 2].upper_bounds == several.upper[1, :, 2]).all()


def test_shap_without_base_values_has_zeros():
    assert explanation(base_values=None).to_shap().base_values.tolist() == [0.0] * 5
    assert explanation(base_values=None, classes=4).to_shap().base_values.shape == (5, 4)
    assert explanation(base_values=None)[0].to_shap().base_values == 0.0
    with pytest.raises(InputError, match=r"single number; convert its row, e\[row\]\.to_shap\(\)"):
        explanation()[0, 0].to_shap()


def test_shap_does_not_share_values(binary):
    s = binary.to_shap()
    before = binary.values.copy()
    s.values[:] = 7.0
    assert (binary.values == before).all()


def error_bars():
    containers = [container for axes in plt.gcf().axes for container in axes.containers]
    bars = [container for container in containers if type(container).__name__ == "ErrorbarContainer"]
    return [bar.lines[2][0].get_segments()[0] for bar in bars]


@pytest.mark.parametrize(
    "pick",
    [
        lambda binary, several: binary[0].to_shap(),
        lambda binary, several: binary.to_shap()[0],
        lambda binary, several: several[0, :, "setosa"].to_shap(),
        lambda binary, several: several.to_shap()[0, :, 0],
    ],
)
def test_waterfall_draws_the_bounds(binary, several, pick):
    s = pick(binary, several)
    shap.plots.waterfall(s, show=False)
    try:
        bars = error_bars()
        plt.gcf().canvas.draw()
    finally:
        plt.close("all")
    lengths = sorted(abs(segment[1][0] - segment[0][0]) for segment in bars)
    np.testing.assert_allclose(lengths, sorted(s.upper_bounds - s.lower_bounds), rtol=1e-9)


def test_waterfall_of_a_fitted_gpec(make, X):
    e = make().fit(X).explain(X[:2])
    shap.plots.waterfall(e[1].to_shap(), show=False)
    try:
        assert len(error_bars()) == 3
        labels = " ".join(text.get_text() for axes in plt.gcf().axes for text in axes.get_yticklabels())
        assert "x1" in labels
    finally:
        plt.close("all")


def drawn(s, plot):
    """A plot of shap, as its one axes with data."""
    plots = {"bar": shap.plots.bar, "beeswarm": shap.plots.beeswarm, "scatter": shap.plots.scatter}
    plots[plot](s, show=False)
    plt.gcf().canvas.draw()
    return plt.gcf().axes[0]


@pytest.fixture
def _close_figures():
    yield
    plt.close("all")


@pytest.mark.usefixtures("_close_figures")
def test_bars_of_shap_show_the_mean_size_of_each_feature(binary):
    ax = drawn(binary.to_shap(), "bar")
    sizes = np.abs(binary.values).mean(axis=0)
    np.testing.assert_allclose(sorted(bar.get_width() for bar in ax.patches), sorted(sizes), rtol=1e-12)
    bars = sorted((bar.get_y() + bar.get_height() / 2, bar.get_width()) for bar in ax.patches)
    names = {round(place): text.get_text() for place, text in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)}
    assert {names[round(place)]: width for place, width in bars} == pytest.approx(dict(zip(NAMES, sizes, strict=True)))


@pytest.mark.usefixtures("_close_figures")
def test_beeswarm_of_shap_shows_every_value(binary):
    ax = drawn(binary.to_shap(), "beeswarm")
    places = np.concatenate([np.asarray(points.get_offsets())[:, 0] for points in ax.collections])
    np.testing.assert_allclose(np.unique(places), np.unique(binary.values), rtol=1e-12)


@pytest.mark.usefixtures("_close_figures")
def test_scatter_of_shap_shows_values_over_data(binary):
    ax = drawn(binary.to_shap()[:, "bmi"], "scatter")
    points = np.concatenate([np.asarray(points.get_offsets()) for points in ax.collections])
    points = points[np.isin(points[:, 1], binary.values[:, 1])]
    np.testing.assert_allclose(
        points[np.argsort(points[:, 1])],
        np.column_stack((binary.data, binary.values))[:, [1, 4]][np.argsort(binary.values[:, 1])],
    )
