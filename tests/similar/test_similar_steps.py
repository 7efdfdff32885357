"""What similar means in the units of the data: closed forms, words, and the sentence in statement and report."""

import html

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.tree import DecisionTreeClassifier

import gpec
from archive_helpers import through_file
from explanation_helpers import explanation
from gpec.data import Schema
from gpec.errors import InputError
from gpec.similar import MeasurementError, NearestRows, SimilarFunction, TypicalSteps


def frame_of(X, similar, **options):
    schema, Z = Schema.learn(X, **options)
    return TypicalSteps.measure(schema, similar.learn(schema, Z, 0), Z).frame(schema)


# How far


def test_numbers_on_a_line():
    """Rows 3 apart with two neighbours each, a tenth of the way: all similar rows lie 0.3 away."""
    X = np.column_stack((3.0 * np.arange(50) + 0.5, np.full(50, 7.0)))
    steps = frame_of(X[1:-1], NearestRows(2, 0.1))
    assert steps.index.tolist() == ["x0", "x1"]
    assert steps.loc["x0", "step"] == pytest.approx(0.3)
    assert steps["share"].tolist() == [1.0, 0.0]
    assert np.isnan(steps.loc["x1", "step"])
    assert steps["words"].tolist() == ["±0.3", "unchanged"]


def test_the_median_of_the_changes_that_happen():
    """Of 100 rows 90 keep their value; of the others 7 change by 2 and 3 by 1,000."""
    changes = np.repeat([0.0, 2.0, 1_000.0], [90, 7, 3])

    def moved(X):
        return [np.column_stack((X[:, 0] + changes[X[:, 0].astype(int)], X[:, 1] + 4))]

    X = np.column_stack((np.arange(100) + 0.5, np.arange(100)))
    steps = frame_of(X, SimilarFunction(moved))
    assert steps["step"].tolist() == [2.0, 4.0]
    assert steps["share"].tolist() == [0.1, 1.0]
    assert steps["words"].tolist() == ["±2 in 10%", "±4"]


def test_flags_and_categories_switch():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"flag": rng.integers(0, 2, 200), "colour": rng.choice(["red", "blue"], 200), "x": rng.normal(size=200)}
    )

    def turned(X):
        X = X.copy()
        X["flag"] = np.where(X["x"] > 0, 1 - X["flag"], X["flag"])
        X["colour"] = np.where(X["x"] > 1, "red", X["colour"])
        X["x"] = X["x"] + 0.25
        return [X]

    steps = frame_of(frame, SimilarFunction(turned))
    assert steps["step"].isna().tolist() == [True, True, False]
    switched = ((frame["x"] > 1) & (frame["colour"] == "blue")).mean()
    np.testing.assert_allclose(steps["share"], [(frame["x"] > 0).mean(), switched, 1.0])
    assert steps.loc["flag", "words"] == f"switches in {(frame['x'] > 0).mean():.0%}"
    assert steps.loc["x", "words"] == "±0.25"


def test_a_missing_value_that_appears_is_a_change_without_a_size():
    X = np.array([[1.5], [np.nan], [3.5], [5.5]])

    def gone(rows):
        return [np.where(np.isnan(rows), 1.0, np.where(rows > 3, np.nan, rows + 0.5))]

    steps = frame_of(X, SimilarFunction(gone))
    assert steps["share"].tolist() == [1.0]
    assert steps["step"].tolist() == [0.5]


@pytest.mark.parametrize(
    ("apart", "words", "days"),
    [("2D", "±1 day", 1.0), ("6D", "±3 days", 3.0), ("6h", "±3 hours", 0.125), ("1min", "±30 seconds", 1 / 2880)],
)
def test_dates(apart, words, days):
    frame = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=30, freq=apart)[1:]})
    steps = frame_of(frame, NearestRows(2))
    assert steps["words"].tolist() == [words]
    assert steps["step"].tolist() == pytest.approx([days])


def test_measurement_errors():
    """Of a normal error, half are below 0.6745 standard deviations."""
    X = np.random.default_rng(1).normal(size=(300, 2))
    steps = frame_of(X, MeasurementError({"x0": 5.0}))
    assert steps.loc["x0", "step"] == pytest.approx(5 * norm.ppf(0.75), rel=0.05)
    assert steps["share"].tolist() == [1.0, 0.0]


def test_nothing_overflows_and_files_hold_it():
    X = np.random.default_rng(7).uniform(-1, 1, (30, 1)) * 1.7e308
    schema, Z = Schema.learn(X)
    across = SimilarFunction(lambda rows: [-np.sign(rows) * 1.7e308]).learn(schema, Z, 0)
    steps = TypicalSteps.measure(schema, across, Z)
    assert np.isfinite(steps.step).all()
    again = through_file(TypicalSteps, steps)
    pd.testing.assert_frame_equal(again.frame(schema), steps.frame(schema))


def test_few_rows_of_a_wide_table_are_enough():
    seen = []

    def counted(X):
        seen.append(len(X))
        return [X + 1.0] * 16

    frame_of(np.random.default_rng(0).normal(size=(40, 3_000)), SimilarFunction(counted))
    assert 20 < max(seen) < 25  # 2**20 numbers


# In the statement


def test_a_statement_names_four_features_at_most():
    steps = {f"f{j}": f"±{j}" for j in range(4)}
    plain = explanation().statement()
    assert explanation(similar_steps=steps).statement() == f"{plain} Similar means: f0 ±0, f1 ±1, f2 ±2, f3 ±3."
    more = explanation(similar_steps=steps | {f"g{j}": "±1" for j in range(1_200)})
    assert more.statement() == f"{plain} Similar means: f0 ±0, f1 ±1, f2 ±2, f3 ±3, and 1,200 more."
    one = explanation(similar_steps={"age": "±3"})
    assert one.statement() == f"{plain} Similar means: age ±3."


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(300, 6)) * [1, 1, 100, 1, 1, 1], columns=list("abcdef"))
    X["b"] = rng.integers(0, 2, 300)
    return X, DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, X["c"] / 100 + X["b"] > 0.5)


def fit(table, **options):
    X, model = table
    return gpec.GPEC(model, "tree", random_state=0, progress=False, **options).fit(X)


def test_the_features_with_the_largest_attributions_come_first(table):
    g = fit(table)
    e = g.explain(table[0][:20])
    order = np.argsort(-np.abs(e.values).mean(axis=0), kind="stable")
    assert list(e.similar_steps) == [e.feature_names[j] for j in order]
    assert e.similar_steps == g.similar_steps()["words"].to_dict()
    c, b = e.similar_steps["c"], e.similar_steps["b"]
    assert b.startswith("switches in ")
    assert f" Similar means: c {c}, b {b}, " in e.statement()
    assert e.statement().endswith(" and 2 more.")


def test_in_the_units_of_the_data_as_given(table):
    """A hundred times the numbers, a hundred times the step; half the way, half the step."""
    X, model = table[0][:200], table[1]
    step = fit((X, model)).similar_steps()["step"]
    larger = X.assign(a=100 * X["a"])
    wide = gpec.GPEC(lambda rows: rows["c"] > 0, "exact", mode="explain", model_output="probability", random_state=0)
    assert wide.fit(larger).similar_steps()["step"]["a"] == pytest.approx(100 * step["a"], rel=1e-9)
    small = fit((X, model), similar=NearestRows(step=0.05)).similar_steps()["step"]
    assert small["a"] == pytest.approx(step["a"] / 10, rel=1e-9)


def test_of_rows_that_lie_apart(table):
    """Rows far from all others have farther neighbours than those of fit."""
    g, X = fit(table), table[0]
    far = X[:30].assign(a=50.0)
    assert (g.similar_steps(far)["step"] > 5 * g.similar_steps()["step"])["a"]
    np.testing.assert_allclose(g.similar_steps(X[:7])["share"], by_hand(g, X[:7]))


def by_hand(g, rows):
    similar = g.similar_rows(rows).to_numpy()
    return (similar != np.repeat(rows.to_numpy(dtype=float), len(similar) // len(rows), axis=0)).mean(axis=0)


def test_selections_and_files_say_the_same(table, tmp_path):
    g, X = fit(table), table[0]
    e = g.explain(X[:6])
    for part in (e[0], e["a"], e[:3, ["f", "a"]]):
        assert part.statement() == e.statement()
    e.save(tmp_path / "e")
    assert gpec.Explanation.load(tmp_path / "e").similar_steps == e.similar_steps
    assert list(gpec.Explanation.load(tmp_path / "e").similar_steps) == list(e.similar_steps)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=g.model)
    assert loaded.explain(X[:6]).statement() == e.statement()
    pd.testing.assert_frame_equal(loaded.similar_steps(), g.similar_steps())


def test_groups(table):
    """Columns of a group come where the group's attribution puts them."""
    e = fit(table, groups={"one": ["a", "c"]}).explain(table[0][:10])
    assert list(e.similar_steps)[:3] == ["a", "c", "b"]


def test_several_classes(table):
    X, _ = table
    model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, pd.cut(X["c"], 3, labels=False))
    e = gpec.GPEC(model, "tree", random_state=0).fit(X).explain(X[:4])
    assert next(iter(e.similar_steps)) == "c"
    assert e[0, :, 1].statement() == e.statement()


class TestWithoutUnits:
    """Where they are unknown or said already, nothing is said, and nothing fails."""

    def test_measurement_error_says_them_itself(self, table):
        g = fit(table, similar=MeasurementError({"a": 0.1}))
        e = g.explain(table[0][:3])
        assert e.similar_steps == {}
        assert "Similar means" not in e.statement()
        assert g.similar_steps()["words"].tolist()[1:] == ["unchanged"] * 5

    def test_a_function_that_fails_for_some_rows(self, table):
        X, _ = table

        def careful(rows):
            if (rows["a"] > 2).any():
                raise ValueError("too large")
            return [rows + 0.5]

        assert (X["a"][:200] > 2).any()
        small = X[(X["a"] < 2)].iloc[:5]
        g = fit((pd.concat((small, X)), table[1]), similar=careful)
        assert "Similar means" not in g.explain(small).statement()
        with pytest.raises(InputError, match=r"similar=careful raised ValueError: too large."):
            g.similar_steps()
        assert g.similar_steps(small)["step"].tolist() == pytest.approx([0.5] * 6)

    def test_images(self):
        X = np.random.default_rng(0).random((40, 1, 4, 4))
        g = gpec.GPEC(
            lambda images: images.mean(axis=(1, 2, 3)), lambda images: images.reshape(len(images), -1),
            mode="explain", model_output="probability", random_state=0,
        ).fit(X)  # fmt: skip
        e = g.explain(X[:2])
        assert e.similar_steps == {}
        assert len(g.similar_steps()) == 16

    def test_the_promise_of_the_value_and_the_paper(self, table):
        X, model = table
        g = gpec.GPEC(model, "tree", mode="predict", n_explained=30, random_state=0, progress=False).fit(X)
        assert "Similar means: c" in g.explain(X[:3]).statement()
        assert g.explain(X[:3], attribution="posterior").similar_steps == {}
        none = gpec.GPEC(
            model, "tree", mode="predict", similar=None, n_explained=30, random_state=0, progress=False
        ).fit(X)
        assert none.explain(X[:3]).similar_steps == {}
        with pytest.raises(InputError, match=r"With similar=None there are no similar rows"):
            none.similar_steps()


# In the report


def test_the_report_tells_it_of_all_features(table, tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("plotly")
    e = fit(table).explain(table[0][:5])
    e.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert f"Similar means: c {e.similar_steps['c']}" in page
    for name, words in e.similar_steps.items():
        assert f"<dt>{name}</dt><dd>{html.escape(words)}</dd>" in page
    explanation(similar_steps={"<b>": "±<i>"}).to_html(tmp_path / "report.html")
    assert "<dt>&lt;b&gt;</dt><dd>±&lt;i&gt;</dd>" in (tmp_path / "report.html").read_text()
    explanation().to_html(tmp_path / "report.html")
    assert "feature by feature" not in (tmp_path / "report.html").read_text()
