"""Intervals about similar rows, against the Gaussian conditional written out in full matrices."""

import numpy as np
import pytest
from scipy.stats import norm

from gpec import PAPER
from gpec.errors import InputError, ParameterTypeError
from gpec.explainers import ExactShapley, ShapleySampling
from gpec.kernels import RBF, Matern, Output, Own
from gpec.similar import MeasurementError, NearestRows
from small_models import CountingModel, curved, slopes, slopes_of_three, three_classes


def noisy_slopes(X):
    """Attributions with a variance that varies over rows and features."""
    X = np.asarray(X, dtype=float)
    return slopes(X), 0.02 + 0.05 * X**2


def features_of(g, output=0):
    """Kernel and posterior of one output, its explained rows, and what was observed there."""
    output_model, seen = g._fitted.output_models[output], g._fitted.observations
    return output_model, seen.attribution.values[:, :, output], seen.U[:, :, output]


def conditional(K, h, y, free_mean):
    """Mean and variance of the last of several normal numbers given the others.

    ``K`` is their covariance without noise, ``h`` the independent variance of each; ``y`` those that are known. The
    constant mean is unknown: its prior variance grows without bound.
    """
    n = len(y)
    A, c, ones = K[:n, :n] + np.diag(h[:n]), K[:n, n], np.ones(n)
    mean = 0.0
    variance = K[n, n] + h[n] - c @ np.linalg.solve(A, c)
    if free_mean:
        precision = ones @ np.linalg.solve(A, ones)
        mean = ones @ np.linalg.solve(A, y) / precision
        variance += (1 - ones @ np.linalg.solve(A, c)) ** 2 / precision
    return mean + c @ np.linalg.solve(A, y - mean), variance


def by_hand(g, x, y, u, others, output=0, total=None, known=False):
    """Mean and variance ``(K, d)`` of the attributions at ``others`` given all explained rows and that of ``x``.

    Twice: with all noise, and as if there were none.
    """
    output_model, Y, U = features_of(g, output)
    parameters = output_model.posterior.parameters
    seen = g._fitted.observations.rows
    d = Y.shape[1]
    mean, variance, quiet = (np.empty((len(others), d)) for _ in range(3))
    for k, other in enumerate(others):
        rows = g._fitted.rows(np.vstack((seen, *(() if known else (x[None],)), other[None])))
        for f in range(d):
            s, g_ = parameters.scale[f], parameters.nugget[f] + 1e-12
            K = s * output_model.kernel.gram(rows, f if output_model.kernel.varies_by_feature else None)
            told = Y[:, f] if known else np.append(Y[:, f], y[f])
            noise = np.concatenate((U[:, f], [u[f]] if known else [u[f], u[f]]))
            mean[k, f], variance[k, f] = conditional(K, s * g_ + noise, told, parameters.free_mean)
            quiet[k, f] = conditional(K, np.full(len(noise), s * g_), told, parameters.free_mean)[1]
    if total is None:
        return mean, variance, quiet
    for k in range(len(others)):  # independent features whose sum is known
        joint = [np.diag(v[k]) for v in (variance, quiet)]
        ones = np.ones(d)
        lack = total[k] - mean[k].sum()
        mean[k] = mean[k] + joint[0] @ ones * lack / (ones @ joint[0] @ ones)
        variance[k], quiet[k] = (np.diag(S - np.outer(S @ ones, S @ ones) / (ones @ S @ ones)) for S in joint)
    return mean, variance, quiet


NOISES = {
    "none": (slopes, {}),
    "given": (slopes, {"noise": 0.05}),
    "by row": (noisy_slopes, {}),
}
KERNELS = {"auto": "auto", "weg": "weg", "sum": RBF(1.0) + RBF("evidence")}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("where", ["new", "explained"])
def test_the_interval_is_that_of_the_full_conditional(make_auto, X, kernel, noise, where):
    explainer, options = NOISES[noise]
    g = make_auto(curved, explainer, kernel=KERNELS[kernel], n_explained=20, **options).fit(X)
    rows = g.X_explained_[:2] if where == "explained" else X[:3] + 0.123
    e = g.explain(rows)
    assert e.promise == "similar rows"
    np.testing.assert_array_equal(e.values, slopes(rows))
    similar = g._fitted.similarity.rows(rows)
    u = g._fitted.observations.U.mean(axis=(0, 2)) * np.ones((len(rows), 3))
    if noise == "by row":
        u = noisy_slopes(rows)[1]
    for i, x in enumerate(rows):
        mean, variance, quiet = by_hand(g, x, e.values[i], u[i], similar[i], known=where == "explained")
        unit = np.sqrt(g._fitted.output_models[0].posterior.scale)
        np.testing.assert_allclose(e.rule.offset[i].T / unit, (mean - e.values[i]) / unit, atol=1e-5)
        np.testing.assert_allclose(e.rule.deviation[i].T ** 2 / unit**2, variance / unit**2, rtol=1e-4, atol=1e-9)
        square = ((mean - e.values[i]) ** 2 + variance).mean(axis=0)
        np.testing.assert_allclose(e.variance[i] / unit**2, square / unit**2, rtol=1e-3, atol=1e-8)
        added = (variance - quiet).mean(axis=0)
        np.testing.assert_allclose(e.noise_variance[i] / unit**2, added / unit**2, rtol=1e-3, atol=1e-8)
        assert (added > 0).all() or noise == "none"


@pytest.mark.parametrize("explainer", [ExactShapley(), ShapleySampling(12)], ids=["exact", "noisy"])
@pytest.mark.parametrize("kernel", ["auto", "weg"])
def test_attributions_that_add_up_are_conditioned_on_their_sum(make_auto, X, kernel, explainer):
    g = make_auto(curved, explainer, kernel=kernel, n_explained=20, background=6).fit(X)
    assert g._fitted.observations.adds_up_to == "probability"
    rows = X[:2] + 0.05
    e = g.explain(rows)
    similar = g._fitted.similarity.rows(rows)
    u = np.zeros_like(e.values) if e.explainer_variance is None else e.explainer_variance
    unit = np.sqrt(g._fitted.output_models[0].posterior.scale)
    for i, x in enumerate(rows):
        total = curved(similar[i]) - e.base_values[i]
        mean, variance, quiet = by_hand(g, x, e.values[i], u[i], similar[i], total=total)
        np.testing.assert_allclose(mean.sum(axis=1), total, atol=1e-9)
        np.testing.assert_allclose((e.values[i] + e.rule.offset[i].T).sum(axis=1), total, atol=1e-9)
        np.testing.assert_allclose(e.rule.offset[i].T / unit, (mean - e.values[i]) / unit, atol=1e-4)
        np.testing.assert_allclose(e.rule.deviation[i].T ** 2 / unit**2, variance / unit**2, rtol=1e-3, atol=1e-8)
        added = (variance - quiet).mean(axis=0)
        np.testing.assert_allclose(e.noise_variance[i] / unit**2, added / unit**2, rtol=1e-2, atol=1e-8)


@pytest.mark.parametrize("explainer", [ExactShapley(), ShapleySampling(12)], ids=["exact", "noisy"])
def test_values_of_the_posterior_add_up(make_auto, X, explainer):
    """Mean and variance are those of independent features given their sum."""
    g = make_auto(curved, explainer, n_explained=20, background=6).fit(X)
    rows = X[:5] + 0.05
    e = g.explain(rows, attribution="posterior")
    assert e.promise == "value"
    np.testing.assert_allclose(e.values.sum(axis=1) + e.base_values, curved(rows), atol=1e-9)
    output_model, _, U = features_of(g)
    found = output_model.posterior.predict(g._fitted.rows(rows))
    u, ones = U.mean(axis=0), np.ones(3)
    for i in range(5):
        S = np.diag(found.variance[i] + u)
        lack = curved(rows[i : i + 1])[0] - e.base_values[i] - found.mean[i].sum()
        np.testing.assert_allclose(e.values[i], found.mean[i] + S @ ones * lack / S.sum(), atol=1e-9)
        left = np.diag(S - np.outer(S @ ones, S @ ones) / S.sum())
        np.testing.assert_allclose(e.variance[i], left, rtol=1e-6, atol=1e-12 * left.max())


def test_values_that_do_not_add_up_are_not_made_to(make_auto, X):
    g = make_auto(noise=0.01).fit(X)
    assert g._fitted.observations.adds_up_to is None
    e = g.explain(X[:5] + 0.05, attribution="posterior")
    found = g.posterior_.predict(g._fitted.rows(X[:5] + 0.05))
    np.testing.assert_allclose(e.values, found.mean, atol=1e-12)
    np.testing.assert_allclose(e.variance, found.variance + 0.01, rtol=1e-9)
    np.testing.assert_allclose(e.model_variance, found.model_variance, rtol=1e-9)


def test_a_similar_row_equal_to_the_row_has_its_attribution(make_auto, X):
    def some(rows):
        return [rows, rows + 0.3]

    e = make_auto(similar=some).fit(X).explain(X[:4] + 0.01)
    np.testing.assert_array_equal(e.rule.offset[:, :, 0], 0.0)
    np.testing.assert_array_equal(e.rule.deviation[:, :, 0], 0.0)
    assert (e.rule.deviation[:, :, 1] > 0).all()


CASES = {
    "two classes": (curved, slopes, {}),
    "noise": (curved, noisy_slopes, {}),
    "three classes": (three_classes, slopes_of_three, {}),
    "shapley": (curved, ExactShapley(), {"background": 6}),
    "constant": (curved, lambda X: np.full((len(X), 3), [0.5, 0.0, -0.1]), {}),
    "constant and noise": (curved, lambda X: np.full((len(X), 3), [0.5, 0.0, -0.1]), {"noise": 0.1}),
    "one constant": (curved, lambda X: slopes(X) * [1.0, 0.0, 1.0], {"noise": 0.1}),
    "measured": (curved, slopes, {"similar": MeasurementError({0: 0.2}, n_draws=4)}),
    "neighbours themselves": (curved, slopes, {"similar": NearestRows(3, step=1.0)}),
    "fixed scale": (curved, slopes, {"output_scale": 1.0, "kernel": "weg"}),
}


@pytest.mark.filterwarnings("ignore::gpec.errors.PosteriorWarning")  # with a fixed scale
@pytest.mark.parametrize("attribution", ["explainer", "posterior"])
@pytest.mark.parametrize("case", CASES)
def test_what_holds_for_every_explanation(make_auto, X, case, attribution, tmp_path):
    model, explainer, options = CASES[case]
    g = make_auto(model, explainer, **options).fit(X)
    e = g.explain(X[:8], attribution=attribution)
    assert e.promise == {"explainer": "similar rows", "posterior": "value"}[attribution]
    assert (e.model_variance >= 0).all()
    assert (e.noise_variance >= 0).all()
    np.testing.assert_array_equal(e.variance, e.model_variance + e.noise_variance)
    assert np.isfinite(e.variance).all()
    for level in (0.5, 0.95, 0.999):
        lower, upper = e.interval(level)
        assert (lower <= e.values).all()
        assert (e.values <= upper).all()
    if case in ("constant", "one constant") and attribution == "explainer":
        assert (e.width[:, 1] < 1e-3 * np.abs(e.values).max() + 4).all()
    e.save(tmp_path / "e")
    loaded = type(e).load(tmp_path / "e")
    for name in ("lower", "upper", "variance"):
        assert getattr(loaded, name).tobytes() == getattr(e, name).tobytes()
    assert e[2].upper.tobytes() == e.upper[2].tobytes()


def test_constant_attributions_do_not_change(make_auto, X):
    e = make_auto(explainer=CASES["constant"][1]).fit(X).explain(X[:5])
    assert (e.width < 1e-6).all()
    assert e.firmness[0].tolist() == ["firm", "unclear", "firm"]


class TestCost:
    def test_ten_model_rows_a_row_and_no_explainer_run(self, make_auto, X):
        explained = []

        def explainer(rows):
            explained.append(len(rows))
            return slopes(rows)

        model = CountingModel(curved)
        g = make_auto(model, explainer, kernel=Matern(Own(1.0), Output(1.0))).fit(X)
        explained.clear()
        before = model.n_rows
        e = g.explain(X[:7] + 0.01)
        assert sum(explained) == 7
        assert model.n_rows - before == 7 + 70  # the rows, and ten similar ones of each
        assert e.diagnostics["model_rows"] == 77
        before = model.n_rows
        for level in (0.5, 0.9, 0.99):
            e.interval(level)
        e.statement(), e.sign_certainty, e.rank_certainty(2), e.firmness, e.firm_share, e[1:, 1].interval(0.8)
        assert model.n_rows == before

    def test_three_classes_ask_once(self, make_auto, X):
        model = CountingModel(three_classes)
        g = make_auto(model, slopes_of_three, kernel=Matern(Own(1.0), Output(1.0))).fit(X)
        before = model.n_rows
        g.explain(X[:4])
        assert model.n_rows - before == 44

    def test_without_similar_rows_the_model_is_not_asked(self, make, X):
        model = CountingModel(curved)
        g = make(model).fit(X)
        before = model.n_rows
        e = g.explain(X[:7])
        assert model.n_rows == before
        assert e.promise == "latent"
        assert e.promise == g.explain(X[:7], attribution="posterior").promise
        assert "promises no coverage" in e.statement()
        np.testing.assert_allclose(e.width, 2 * norm.isf(0.025) * e.std)


def test_blocks_and_threads_do_not_matter(make_auto, X, monkeypatch):
    g = make_auto(explainer=noisy_slopes).fit(X)
    whole = g.explain(X[:40])
    monkeypatch.setattr("gpec.pipeline.prediction._BLOCK", 7)
    for n_jobs in (None, 3):
        parts = g.set_params(n_jobs=n_jobs).explain(X[:40])
        np.testing.assert_allclose(parts.rule.offset, whole.rule.offset, atol=1e-9)
        np.testing.assert_allclose(parts.variance, whole.variance, rtol=1e-6)
    alone = g.explain(X[3:4])
    np.testing.assert_allclose(alone.variance, whole.variance[3:4], rtol=1e-6)


def test_several_classes_are_each_their_own(make_auto, X):
    g = make_auto(three_classes, slopes_of_three, n_explained=20).fit(X)
    rows = X[:2] + 0.1
    e = g.explain(rows)
    assert e.shape == (2, 3, 3)
    assert e.rule.offset.shape == (2, 3, 3, 10)
    similar = g._fitted.similarity.rows(rows)
    for c in range(3):
        unit = np.sqrt(g.posterior_[c].scale)
        mean, variance, _ = by_hand(g, rows[1], e.values[1, :, c], np.zeros(3), similar[1], output=c)
        np.testing.assert_allclose(e.rule.offset[1, :, c].T / unit, (mean - e.values[1, :, c]) / unit, atol=1e-5)
        np.testing.assert_allclose(e.rule.deviation[1, :, c].T ** 2 / unit**2, variance / unit**2, rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("columns", ["numbers", "mixed"])
def test_files(make_auto, X, mixed, columns, tmp_path):
    if columns == "numbers":
        g, rows = make_auto(explainer=noisy_slopes).fit(X), X[:6] + 0.1
        again = {"explainer": noisy_slopes}
    else:
        frame = mixed.frame

        def explainer(rows):
            return np.column_stack([rows["weight"] * (k + 1) + (rows["colour"] == "red") for k in range(5)])

        g, rows = make_auto(mixed.model, explainer).fit(frame), frame[:6]
        again = {"explainer": explainer}
    g.save(tmp_path / "g")
    loaded = type(g).load(tmp_path / "g", model=g.model, **again)
    for attribution in ("explainer", "posterior"):
        a, b = (each.explain(rows, attribution=attribution) for each in (g, loaded))
        assert a.statement() == b.statement()
        for name in ("values", "variance", "lower", "upper"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_a_function_is_given_again_to_load(make_auto, X, tmp_path):
    def shifted(rows):
        return [rows + 0.1, rows - 0.1]

    g = make_auto(similar=shifted).fit(X)
    g.save(tmp_path / "g")
    loaded = type(g).load(tmp_path / "g", model=curved, explainer=slopes, similar=shifted)
    np.testing.assert_array_equal(loaded.explain(X[:3]).upper, g.explain(X[:3]).upper)
    forgotten = type(g).load(tmp_path / "g", model=curved, explainer=slopes)
    with pytest.raises(InputError, match="similar"):
        forgotten.explain(X[:3])


def test_the_predicted_change_follows_the_true_one(make_auto, X):
    """Brute force: where the explanations of similar rows really differ, the interval is wide."""

    def bent(rows):  # attributions that change faster the larger the first feature
        return np.exp(rows[:, :1]) * np.sin(rows)

    many = np.random.default_rng(5).normal(size=(300, 3))
    g = make_auto(explainer=bent, n_explained=150).fit(many)
    rows = np.random.default_rng(6).normal(size=(40, 3))
    e = g.explain(rows)
    similar = g._fitted.similarity.rows(rows)
    change = bent(similar.reshape(-1, 3)).reshape(40, 10, 3) - bent(rows)[:, None]
    size = np.sqrt((change**2).mean(axis=1))
    for f in range(3):
        ranks = [np.argsort(np.argsort(a[:, f])) for a in (size, e.width)]
        assert np.corrcoef(*ranks)[0, 1] > 0.6
    inside = (np.abs(change) <= (e.width / 2)[:, None]).mean()
    assert 0.85 < inside <= 1.0


@pytest.mark.parametrize(
    ("similar", "error", "words"),
    [
        ("near", ParameterTypeError, "similar='near' must be 'auto', None"),
        (3, ParameterTypeError, "similar=3 must be"),
        (NearestRows, ParameterTypeError, "must be 'auto', None"),
        (NearestRows(0), InputError, "n_neighbors"),
        (NearestRows(step=1.5), InputError, "step=1.5 must be at most 1"),
        (NearestRows(fixed=[0, 1, 2]), InputError, "no row could change"),
        (NearestRows(fixed=["age"]), InputError, "fixed has 'age', which is not a column"),
        (MeasurementError({"glucose": 5.0}), InputError, "std has 'glucose', which is not a column"),
        (MeasurementError({0: -1.0}), InputError, "std"),
        (lambda rows: np.full((len(rows), 2, 3), np.nan), InputError, "similar"),
        (lambda rows: np.zeros((len(rows), 2, 5)), InputError, "similar"),
        (lambda rows: rows[: len(rows) // 2], InputError, "similar"),
        (lambda rows: [rows], InputError, "returned only row 0 itself"),
        (lambda rows: None, (InputError, ParameterTypeError), "similar"),
    ],
    ids=range(14),
)
def test_what_similar_cannot_be(make_auto, X, similar, error, words):
    model = CountingModel(curved)
    g = make_auto(model, similar=similar)
    with pytest.raises(error, match=words):
        g.fit(X)
    assert not hasattr(g, "posterior_")
    if not callable(similar) or isinstance(similar, type):
        assert model.n_calls == 0  # parameters are refused before the first call


def test_measurement_error_of_a_category(make_auto, mixed):
    with pytest.raises(InputError, match="'colour', a categorical column"):
        make_auto(mixed.model, "kernelshap", similar=MeasurementError({"colour": 1.0})).fit(mixed.frame)


def test_a_function_that_fails_later_leaves_the_fit_as_it_was(make_auto, X):
    broken = []

    def moody(rows):
        return [rows + 0.1] if not broken else np.full((len(rows), 1, 3), np.nan)

    g = make_auto(similar=moody).fit(X)
    expected = g.explain(X[:3]).upper
    broken.append(True)
    with pytest.raises(InputError, match="similar"):
        g.explain(X[:3])
    broken.clear()
    np.testing.assert_array_equal(g.explain(X[:3]).upper, expected)


def test_the_papers_settings_have_no_similar_rows(make_auto, X):
    e = make_auto(**PAPER).fit(X).explain(X[:3])
    assert e.promise == "latent"
