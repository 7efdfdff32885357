"""Where the explainer's noise comes from (Eq. 3), and what is said when it is left out."""

import warnings

import numpy as np
import pytest
import shap

from gpec.errors import InputError, ParameterTypeError, StochasticExplainerWarning
from gpec.explainers import Attribution, Explainer, ShapKernel
from gpec.explainers.noise import check_noise, check_noise_shape, noise_variance, observe


class Noisy:
    """Attributions with noise of known variance for each feature, drawn from its own generator."""

    def __init__(self, models, scale=(0.1, 0.2, 0.3)):
        self.models, self.scale, self.rng, self.n_calls = models, np.array(scale), np.random.default_rng(0), 0

    def __call__(self, X):
        self.n_calls += 1
        return self.models.slopes(X) + self.scale * self.rng.standard_normal(X.shape)


def warned(action):
    """Result of the action, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = action()
    return result, caught


# "auto"


@pytest.mark.parametrize("fault", ["callable", "shap object", "by name"])
def test_stochastic_explainer_warns_once_and_names_resample(make, models, X, fault):
    if fault == "callable":
        explainer, rows, model = Noisy(models), X, models.curved
    else:
        rows = np.random.default_rng(0).normal(size=(60, 12))

        def model(X):
            return 1 / (1 + np.exp(-X[:, 0] * X[:, 1] - X[:, 2]))

        explainer = ShapKernel(n_samples=40) if fault == "by name" else shap.SamplingExplainer(model, rows[:2])
    g = make(model, explainer, n_explained=4, n_boundary=20)
    _, caught = warned(lambda: g.fit(rows))
    assert [warning.category for warning in caught] == [StochasticExplainerWarning]
    assert "noise='resample'" in str(caught[0].message)
    assert "noise='none'" in str(caught[0].message)
    assert caught[0].filename == __file__  # it points at the line that called fit
    assert not g.attributions_.variance.any()
    assert g.diagnostics_["noise"] == "none, though the explainer is stochastic"
    e, caught = warned(lambda: g.explain(rows[:2]))
    assert caught == []
    assert not e.noise_variance.any()


@pytest.mark.parametrize("noise", ["resample", "none", 0.01, [0.1, 0.2, 0.3]])
def test_no_warning_when_noise_is_taken_care_of(make, models, X, noise):
    _, caught = warned(lambda: make(explainer=Noisy(models), noise=noise, n_resamples=3).fit(X))
    assert caught == []


def test_deterministic_explainer_has_no_noise(make, X):
    g, caught = warned(lambda: make().fit(X))
    assert caught == []
    assert g.diagnostics_["noise"] == "none"
    assert not g.attributions_.variance.any()
    assert not g.explain(X[:3]).noise_variance.any()


def test_a_constant_explainer_is_deterministic(make, X):
    _, caught = warned(lambda: make(explainer=np.zeros_like).fit(X))
    assert caught == []


def test_rounding_is_not_noise(make, models, X):
    state = {"n": 0}

    def explainer(X):
        state["n"] += 1
        return models.slopes(X) * (1 + 1e-13 * state["n"])

    _, caught = warned(lambda: make(explainer=explainer).fit(X))
    assert caught == []


def test_own_variance_is_used(make, models, X):
    g, caught = warned(lambda: make(explainer=lambda X: (models.slopes(X), 0.01 + 0.1 * X**2)).fit(X))
    assert caught == []
    np.testing.assert_array_equal(g.attributions_.variance, 0.01 + 0.1 * g.X_explained_**2)
    assert g.diagnostics_["noise"] == "the explainer's own"
    e = g.explain(X[:4])
    np.testing.assert_array_equal(e.explainer_variance, 0.01 + 0.1 * X[:4] ** 2)
    assert (e.noise_variance > 0).all()


def test_own_variance_belongs_to_the_explainers_answer(make, models, X):
    e = make(explainer=lambda X: (models.slopes(X), 0.1 * X**2)).fit(X).explain(X[:4], attribution="posterior")
    assert e.explainer_variance is None
    assert (e.noise_variance > 0).any()


def test_none_ignores_own_variance(make, models, X):
    g = make(explainer=lambda X: (models.slopes(X), 0.1 * X**2), noise="none").fit(X)
    assert not g.attributions_.variance.any()
    e = g.explain(X[:4])
    assert not e.noise_variance.any()
    np.testing.assert_array_equal(e.explainer_variance, 0.1 * X[:4] ** 2)


# "resample"


class Steps:
    """Stands for an explainer: run ``r`` answers ``r**2`` everywhere, plus the row times 1, 2, ... for each output."""

    stochastic = None

    def __init__(self, outputs=1):
        self.outputs, self.runs = outputs, []

    def explain(self, Z, *, seed, run=0, n_runs=1, execution=None):
        self.runs.append(run)
        values = Z[:, :, None] * np.arange(1.0, self.outputs + 1) + run**2
        return Attribution(values, base_values=np.full((len(Z), self.outputs), float(run)))


@pytest.mark.parametrize("n", [2, 3, 10])
def test_resampling_is_mean_and_variance_of_the_mean(n):
    Z = np.arange(6.0).reshape(2, 3)
    found = observe(Steps(), Z, noise="resample", n_resamples=n, seed=0)
    squares = np.arange(n) ** 2.0
    np.testing.assert_allclose(found.values, Z[:, :, None] + squares.mean())
    expected = ((squares - squares.mean()) ** 2).sum() / (n - 1) / n  # ddof 1, divided by the number of runs
    np.testing.assert_allclose(found.variance, np.full((2, 3, 1), expected))


@pytest.mark.parametrize("n", [2, 3, 10])
def test_papers_resampling_is_one_run_and_the_variance_of_a_run(n):
    Z = np.arange(6.0).reshape(2, 3)
    explainer = Steps(outputs=3)
    found = observe(explainer, Z, noise="resample-paper", n_resamples=n, seed=0)
    assert explainer.runs == list(range(n))
    squares = np.arange(n) ** 2.0
    np.testing.assert_array_equal(found.values, Z[:, :, None] * [1.0, 2.0, 3.0])  # of run 0
    np.testing.assert_allclose(found.variance, np.full((2, 3, 3), ((squares - squares.mean()) ** 2).sum() / n))
    np.testing.assert_array_equal(found.base_values, np.zeros((2, 3)))


def test_resampling_of_several_classes():
    Z = np.arange(6.0).reshape(2, 3)
    found = observe(Steps(outputs=3), Z, noise="resample", n_resamples=2, seed=0)
    np.testing.assert_allclose(found.values, Z[:, :, None] * [1.0, 2.0, 3.0] + 0.5)
    np.testing.assert_allclose(found.variance, np.full((2, 3, 3), 0.25))


class Says(Explainer):
    """An explainer that says what it is, counts its runs and may have a variance of its own."""

    def __init__(self, stochastic=False, variance=None):
        self.stochastic, self.variance, self.n_runs = stochastic, variance, 0

    def get_params(self, deep=True):
        return {}

    def _explain(self, Z, seeds):
        Says.n_runs += 1
        return Attribution(0.1 * Z, None if self.variance is None else np.full(Z.shape, self.variance))


@pytest.mark.parametrize("noise", ["resample", "resample-paper"])
@pytest.mark.parametrize(("stochastic", "n_runs"), [(False, 1), (None, 7)])
def test_deterministic_explainer_is_asked_and_runs_once(make, models, X, noise, stochastic, n_runs):
    class Own(Says):
        def __init__(self):
            super().__init__(stochastic)

    Says.n_runs = 0
    g = make(explainer=Own(), noise=noise, n_resamples=7).fit(X)
    assert Says.n_runs == n_runs
    assert not g.attributions_.variance.any()  # exactly: equal runs have no spread
    np.testing.assert_array_equal(g.attributions_.values, 0.1 * g.X_explained_)
    assert g.diagnostics_["noise"] == "none, the explainer is deterministic"
    e = g.explain(X[:2])
    assert Says.n_runs == 2 * n_runs
    assert not e.noise_variance.any()


def test_what_a_deterministic_explainer_knows_of_its_variance_is_kept(make, X):
    class Own(Says):
        def __init__(self):
            super().__init__(False, 0.25)

    Says.n_runs = 0
    g = make(explainer=Own(), noise="resample").fit(X)
    assert Says.n_runs == 1
    assert (g.attributions_.variance == 0.25).all()
    assert g.diagnostics_["noise"] == "the explainer's own"


def test_resampling_says_so_of_a_stochastic_explainer(make, models, X):
    g = make(explainer=Noisy(models), noise="resample-paper", n_resamples=30).fit(X)
    np.testing.assert_allclose(g.attributions_.variance.mean(axis=0), [0.01, 0.04, 0.09], rtol=0.15)
    assert g.diagnostics_["noise"] == "resampled"


def test_a_row_is_resampled_as_if_it_were_alone(models, X):
    """Runs of one row may agree by chance; whether they are believed must not depend on the rows beside it."""
    explainer = ShapKernel(4).fit(models.curved, X)
    options = {"noise": "resample", "n_resamples": 3, "seed": 0}
    together = observe(explainer, X[:40], **options)
    alone = [observe(explainer, X[i : i + 1], **options) for i in range(40)]
    np.testing.assert_allclose(np.concatenate([part.values for part in alone]), together.values, atol=1e-12)
    np.testing.assert_allclose(np.concatenate([part.variance for part in alone]), together.variance, atol=1e-12)


@pytest.mark.parametrize("noise", ["auto", "none", 0.1, [0.1]])
def test_without_resampling_there_is_one_run(noise):
    Z = np.arange(6.0).reshape(2, 3)
    found = observe(Steps(), Z, noise=noise, n_resamples=5, seed=0)
    np.testing.assert_array_equal(found.values, Z[:, :, None])
    assert found.variance is None


def test_resampling_finds_the_noise(make, models, X):
    explainer = Noisy(models)
    g = make(explainer=explainer, noise="resample", n_resamples=40, n_explained=100).fit(X)
    assert explainer.n_calls == 40 * 2  # blocks of rows
    found = g.attributions_.variance.mean(axis=0) * 40
    np.testing.assert_allclose(found, explainer.scale**2, rtol=0.1)
    assert g.diagnostics_["noise"] == "resampled"
    error = np.abs(g.attributions_.values - models.slopes(g.X_explained_))
    assert (error < 5 * explainer.scale / np.sqrt(40)).all()
    e = g.explain(X[:3])
    assert explainer.n_calls == 40 * 2 + 40
    assert (e.noise_variance > 0).all()
    assert e.explainer_variance.shape == (3, 3)


def test_resampling_by_seed(make, models, X):
    first, second = (
        make(explainer=ShapKernel(4), noise="resample", n_resamples=4, n_explained=6).fit(X) for _ in range(2)
    )
    np.testing.assert_array_equal(first.attributions_.values, second.attributions_.values)
    assert (first.attributions_.variance > 0).any()
    a, b = first.explain(X[:2]), second.explain(X[:2])
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(a.variance, b.variance)


# Given


@pytest.mark.parametrize(
    ("noise", "c", "expected"),
    [
        (0.1, 1, np.full((4, 3, 1), 0.1)),
        ([1.0, 2.0, 3.0], 1, np.tile([[1.0], [2.0], [3.0]], (4, 1, 1))),
        (np.arange(12.0).reshape(4, 3), 1, np.arange(12.0).reshape(4, 3, 1)),
        (np.arange(12.0).reshape(4, 3, 1), 1, np.arange(12.0).reshape(4, 3, 1)),
        (np.arange(12.0).reshape(4, 3), 3, np.repeat(np.arange(12.0).reshape(4, 3, 1), 3, axis=2)),
        (np.arange(36.0).reshape(4, 3, 3), 3, np.arange(36.0).reshape(4, 3, 3)),
    ],
    ids=range(6),
)
def test_given_noise_in_the_shape_used_inside(noise, c, expected):
    U, source = noise_variance(noise, Attribution(np.zeros((4, 3, c))), None, np.zeros((4, 3)), 0)
    assert source == "given"
    assert U.shape == expected.shape
    np.testing.assert_array_equal(U, expected)


@pytest.mark.parametrize(
    ("noise", "c", "message"),
    [
        (np.ones((4, 3, 2)), 1, r"noise has shape \(4, 3, 2\), .* shape \(4, 3\)\."),
        (np.ones((4, 2)), 1, r"noise has shape \(4, 2\), .* shape \(4, 3\)\."),
        (np.ones((4, 3, 2)), 3, r"noise has shape \(4, 3, 2\), .* shape \(4, 3, 3\)\."),
        (np.ones((3, 4)), 3, r"noise has shape \(3, 4\), .* shape \(4, 3, 3\)\."),
    ],
)
def test_given_noise_of_another_shape_is_told_the_shape_users_know(noise, c, message):
    with pytest.raises(InputError, match=message):
        noise_variance(noise, Attribution(np.zeros((4, 3, c))), None, np.zeros((4, 3)), 0)


@pytest.mark.parametrize(
    "noise", [0.04, 1, np.float32(0.5), np.full(3, 0.04), [0.1, 0.2, 0.3], np.full((25, 1), 0.1), np.full((25, 3), 0.2)]
)
def test_given_noise(make, X, noise):
    g = make(noise=noise).fit(X)
    np.testing.assert_array_equal(g.attributions_.variance, np.broadcast_to(noise, (25, 3)))
    assert g.diagnostics_["noise"] == "given"
    assert (g.explain(X[:3]).noise_variance > 0).all()


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        (0.1, np.full((25, 3, 3), 0.1)),
        ([0.1, 0.2, 0.3], np.broadcast_to(np.array([0.1, 0.2, 0.3])[:, None], (25, 3, 3))),  # one for each feature
        (np.arange(75.0).reshape(25, 3), np.repeat(np.arange(75.0).reshape(25, 3, 1), 3, axis=2)),
        (np.arange(225.0).reshape(25, 3, 3), np.arange(225.0).reshape(25, 3, 3)),
        (np.arange(3.0).reshape(1, 1, 3), np.broadcast_to(np.arange(3.0), (25, 3, 3))),
    ],
    ids=range(5),
)
def test_given_noise_of_several_classes(make, models, X, noise, expected):
    g = make(models.three_classes, models.slopes_of_three, noise=noise, n_boundary=20).fit(X)
    np.testing.assert_array_equal(g.attributions_.variance, expected)


def test_more_noise_more_variance(make, X):
    widths = [make(noise=noise, output_scale=1.0).fit(X).explain(X[:5]).variance for noise in (0.0, 1e-2, 1.0)]
    assert (widths[0] < widths[1]).all()
    assert (widths[1] < widths[2]).all()


def test_given_noise_is_not_kept_by_reference(make, X):
    noise = np.full((25, 3), 0.1)
    g = make(noise=noise).fit(X)
    before = g.explain(X[:3]).variance
    noise[:] = 7.0
    np.testing.assert_array_equal(g.explain(X[:3]).variance, before)
    assert (g.attributions_.variance == 0.1).all()


@pytest.mark.parametrize(
    ("noise", "error"),
    [
        ("loud", InputError),
        (-1.0, InputError),
        (np.nan, InputError),
        (np.inf, InputError),
        (np.float64(-1), InputError),
        ([0.1, -0.1, 0.1], InputError),
        ([0.1, np.nan, 0.1], InputError),
        ([[0.1], [0.1, 0.2]], InputError),
        (None, ParameterTypeError),
        (True, ParameterTypeError),
        ({}, ParameterTypeError),
        (1j, ParameterTypeError),
        (np.complex128(1), ParameterTypeError),
        ([1j], ParameterTypeError),
        (["a"], ParameterTypeError),
        (len, ParameterTypeError),
    ],
)
def test_noise_that_is_none(noise, error):
    with pytest.raises(error, match="noise"):
        check_noise(noise)


@pytest.mark.parametrize(
    ("shape", "fits"),
    [
        ((), True),
        ((3,), True),
        ((1,), True),
        ((25, 3), True),
        ((25, 1), True),
        ((1, 3), True),
        ((25, 3, 4), True),
        ((1, 1, 4), True),
        ((2,), False),
        ((25,), False),
        ((24, 3), False),
        ((3, 25), False),
        ((25, 2, 4), False),
        ((25, 3, 4, 1), False),
    ],
)
def test_shape_of_noise(shape, fits):
    noise = np.ones(shape)
    if fits:
        check_noise_shape(noise, 25, 3)
    else:
        with pytest.raises(InputError, match=r"noise has shape .* does not fit attributions of shape \(25, 3\)"):
            check_noise_shape(noise, 25, 3)


@pytest.mark.parametrize("shape", [(2,), (24, 3), (25, 3, 2, 1)])
def test_shape_of_noise_is_refused_before_the_first_model_call(make, models, counting, X, shape):
    model = counting(models.curved)
    with pytest.raises(InputError, match="noise has shape"):
        make(model, noise=np.ones(shape)).fit(X)
    assert model.n_calls == 0


def test_noise_of_as_many_classes_as_there_are_not(make, models, X):
    with pytest.raises(InputError, match=r"noise has shape \(25, 3, 4\), .* shape \(25, 3, 3\)"):
        make(models.three_classes, models.slopes_of_three, noise=np.ones((25, 3, 4))).fit(X)
    with pytest.raises(InputError, match=r"noise has shape \(25, 3, 2\), .* shape \(25, 3\)"):
        make(noise=np.ones((25, 3, 2))).fit(X)


# Given attributions


def test_attribution_variance_is_the_noise(make, models, X):
    variance = 0.1 * X[:20] ** 2
    g = make(explainer=None).fit(
        X, X_explained=X[:20], attributions=models.slopes(X[:20]), attribution_variance=variance
    )
    np.testing.assert_array_equal(g.attributions_.variance, variance)
    given = make(explainer=None, noise=variance).fit(X, X_explained=X[:20], attributions=models.slopes(X[:20]))
    a, b = (part.explain(X[:5], attribution="posterior") for part in (g, given))
    np.testing.assert_array_equal(a.variance, b.variance)
    np.testing.assert_array_equal(a.noise_variance, b.noise_variance)


@pytest.mark.parametrize("noise", ["none", 0.1, [0.1, 0.1, 0.1]])
def test_attribution_variance_with_other_noise(make, models, counting, X, noise):
    model = counting(models.curved)
    with pytest.raises(InputError, match=r"attribution_variance is given together with noise=.*leave noise='auto'"):
        make(model, noise=noise).fit(X, attributions=models.slopes(X), attribution_variance=np.ones_like(X))
    assert model.n_calls == 0


def test_resample_cannot_be_had_of_given_attributions(make, models, counting, X):
    model = counting(models.curved)
    with pytest.raises(InputError, match="noise='resample' runs the explainer again, but attributions are given"):
        make(model, noise="resample").fit(X, attributions=models.slopes(X))
    assert model.n_calls == 0


@pytest.mark.parametrize("noise", ["resample", "resample-paper"])
def test_given_attributions_are_never_taken_for_resampled(noise):
    given = Attribution(np.ones((4, 3, 1)))
    with pytest.raises(InputError, match=f"noise='{noise}' runs the explainer again, but attributions are given"):
        noise_variance(noise, given, None, np.ones((4, 3)), 0)
