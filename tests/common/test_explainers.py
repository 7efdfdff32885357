"""The same checks on every explainer of our own: bits, batches, frames, classes, failing models, files."""

import numpy as np
import pytest

import gpec
from extras import torch
from gpec.errors import ModelCallError, ModelOutputError
from gpec.explainers import (
    BayesLime,
    BayesShap,
    CXPlain,
    ExactShapley,
    KernelShap,
    Lime,
    ShapKernel,
    ShapleySampling,
    make_explainer,
)

MAKERS = {
    "bayeslime": lambda: BayesLime(60),
    "bayeslime, focused": lambda: BayesLime(60, sampling="focused"),
    "bayeslime to a width": lambda: BayesLime(60, target_width=0.05, max_samples=300),
    "bayesshap": lambda: BayesShap(60),
    "bayesshap, focused": lambda: BayesShap(60, sampling="focused"),
    "bayesshap to a width": lambda: BayesShap(60, target_width=0.03, max_samples=300),
    "cxplain": lambda: CXPlain(2, n_train=60, n_epochs=3),
    "exact": ExactShapley,
    "exact, log-odds": lambda: ExactShapley(link="logit"),
    "kernelshap": lambda: KernelShap(24),
    "lime": lambda: Lime(80),
    "lime, log-odds": lambda: Lime(80, link="logit"),
    "shapley_sampling": lambda: ShapleySampling(64),
    "shapley_sampling, log-odds": lambda: ShapleySampling(64, link="logit"),
    "shap's kernelshap": lambda: ShapKernel(24),
}


@pytest.fixture(params=MAKERS)
def name(request):
    return request.param


@pytest.fixture
def make_one(name):
    return MAKERS[name]


@pytest.fixture(scope="module")
def wide():
    return np.random.default_rng(5).normal(size=(80, 6))


def curved(X):
    X = np.asarray(X, dtype=float)
    return 1 / (1 + np.exp(-(X[:, 0] - 2 * X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2)))


def test_same_seed_same_bits_and_another_seed_others(make_one, wide):
    def fitted(seed):
        return make_one().fit(curved, wide, background=wide[:20], random_state=seed)

    explainer = fitted(3)
    first, again = explainer(wide[:5]), fitted(3)(wide[:5])
    assert np.array_equal(first.values, again.values)
    assert (first.variance is None) == (again.variance is None)
    if first.variance is not None:
        assert np.array_equal(first.variance, again.variance)
    other = explainer.explain(wide[:5], seed=4).squeeze_single_output()
    assert other.values.shape == first.values.shape
    # one that does not know beforehand is random where it says that it has a variance
    draws = first.variance.max() > 0 if explainer.stochastic is None else explainer.stochastic
    assert np.array_equal(other.values, first.values) == (not draws)
    if explainer.learns or draws:
        assert np.abs(fitted(4)(wide[:5]).values - first.values).max() > 1e-6


def test_one_output_has_an_axis_inside_and_none_outside(make_one, wide):
    explainer = make_one().fit(curved, wide, background=20)
    inside, outside = explainer.explain(wide[:4], seed=explainer.seed_), explainer(wide[:4])
    for name, shape in (("values", (4, 6)), ("variance", (4, 6)), ("base_values", (4,))):
        if getattr(outside, name) is None:
            assert getattr(inside, name) is None
            assert name != "values"
        else:
            assert getattr(outside, name).shape == shape
            assert np.array_equal(getattr(inside, name), getattr(outside, name)[..., None])


def test_bits_do_not_depend_on_n_jobs(make_one, wide):
    answers = []
    for n_jobs in (1, 2):
        g = gpec.GPEC(curved, make_one(), n_boundary=40, n_explained=12, background=10, noise="none", n_jobs=n_jobs)
        g.set_params(random_state=0, progress=False)
        answers.append(g.fit(wide).explain(wide[:3]))
    assert np.array_equal(answers[0].values, answers[1].values)
    assert np.array_equal(answers[0].variance, answers[1].variance)


def test_a_batch_equals_row_by_row_in_any_order(make_one, wide):
    explainer = make_one().fit(curved, wide, background=20)
    together = explainer(wide[:6])
    single = [explainer(wide[i : i + 1]) for i in range(6)]
    np.testing.assert_allclose(np.concatenate([one.values for one in single]), together.values, rtol=0, atol=1e-10)
    np.testing.assert_allclose(explainer(wide[5::-1]).values[::-1], together.values, rtol=0, atol=1e-10)
    if together.variance is not None:
        found = np.concatenate([one.variance for one in single])
        np.testing.assert_allclose(found, together.variance, rtol=0, atol=1e-10)


def test_rows_at_once_do_not_matter(make_one, wide):
    if isinstance(make_one(), ShapKernel):
        pytest.skip("shap takes one seed a call, so one row at once is part of it")
    explainer = make_one().fit(curved, wide, background=20)
    together = explainer(wide[:6]).values
    explainer.rows_at_once = 2
    np.testing.assert_allclose(explainer(wide[:6]).values, together, rtol=0, atol=1e-10)


def test_frames_with_categories_reach_the_model_as_they_are(make_one, mixed):
    answer = make_one().fit(mixed.model, mixed.frame, background=15)(mixed.frame.iloc[:4])
    assert answer.values.shape == (4, 5)
    assert np.isfinite(answer.values).all()
    assert np.abs(answer.values).max() > 1e-3


def test_three_classes_in_one_pass(make_one, models, X):
    answer = make_one().fit(models.three_classes, X, background=20)(X[:4])
    assert answer.values.shape == (4, 3, 3)
    assert answer.variance is None or answer.variance.shape == (4, 3, 3)
    # two classes whose second is the third here: the same game
    two = make_one().fit(lambda rows: models.three_classes(rows)[:, 2], X, background=20)(X[:4])
    # CXPlain trains one network for all classes, and these two choose perturbations by all of them
    chooses = getattr(make_one(), "target_width", None) is not None or getattr(make_one(), "sampling", "") == "focused"
    if not isinstance(make_one(), CXPlain) and not chooses:
        np.testing.assert_allclose(answer.values[:, :, 2], two.values, atol=1e-8)


def test_errors_of_the_model_name_the_row_and_keep_their_cause(make_one, wide):
    bad = wide[:6].copy()
    bad[4, 0] = 77.0

    def fails(rows):
        if (np.asarray(rows)[:, 0] == 77.0).any():
            raise ZeroDivisionError("no answer")
        return curved(rows)

    explainer = make_one().fit(fails, wide, background=20)
    if isinstance(explainer, CXPlain):
        assert explainer(bad).values.shape == (6, 6)  # after learning it asks the model no more
        return
    with pytest.raises(ModelCallError, match=r"no answer; this was while explaining row") as caught:
        explainer(bad)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    explainer.rows_at_once = 1
    with pytest.raises(ModelCallError, match=r"while explaining row 4\."):
        explainer(bad)


def test_a_model_that_answers_nan_is_refused(make_one, wide):
    def nan_far_away(rows):
        answer = curved(rows)
        answer[np.asarray(rows)[:, 0] == 77.0] = np.nan
        return answer

    bad = wide.copy()
    bad[1, 0] = 77.0
    if isinstance(make_one(), CXPlain):  # it asks the model while it learns
        with pytest.raises(ModelOutputError, match=r"nan .* masked parts of row 1\."):
            make_one().set_params(n_train=80).fit(nan_far_away, bad, background=wide[:20])
        return
    with pytest.raises(ModelOutputError, match=r"nan .* while explaining row 1\."):
        make_one().fit(nan_far_away, wide, background=20)(bad[:3])


def test_global_generators_are_left_alone(make_one, wide):
    before = np.random.get_state()[1].copy()
    make_one().fit(curved, wide, background=20)(wide[:3])
    assert np.array_equal(np.random.get_state()[1], before)


def test_torchs_generator_is_left_alone(make_one, wide):
    before = torch.random.get_rng_state()
    make_one().fit(curved, wide, background=20)(wide[:3])
    assert torch.equal(torch.random.get_rng_state(), before)


def test_what_it_learned_is_saved(make_one, wide, tmp_path):
    g = gpec.GPEC(curved, make_one(), n_boundary=40, n_explained=12, background=10, noise="none", random_state=0)
    expected = g.fit(wide).explain(wide[:3])
    g.save(tmp_path / "one.gpec")
    found = gpec.GPEC.load(tmp_path / "one.gpec", model=curved, explainer=make_one()).explain(wide[:3])
    assert np.array_equal(found.values, expected.values)
    assert np.array_equal(found.variance, expected.variance)


def test_the_callers_rows_stay_as_they_were(make_one, wide):
    rows = wide.copy()
    rows.setflags(write=False)
    make_one().fit(curved, rows, background=20)(rows[:3])
    assert np.array_equal(rows, wide)


def test_use_before_fit_is_one_sentence(make_one, wide):
    with pytest.raises(gpec.errors.NotFittedError, match=r"is not fitted yet; call fit\(model, X\) first"):
        make_one()(wide[:2])


@pytest.mark.parametrize(
    "word", ["kernelshap", "lime", "shapley_sampling", "bayeslime", "bayesshap", "cxplain", "tree", "exact"]
)
def test_every_name_of_the_contract_is_known(word):
    assert make_explainer(word).get_params() == type(make_explainer(word))().get_params()


@pytest.mark.parametrize("name", ["bayeslime", "bayesshap", "kernelshap", "shapley_sampling", "lime"])
def test_gpec_counts_its_variance_as_noise(name, wide):
    g = gpec.GPEC(curved, MAKERS[name](), n_boundary=40, n_explained=15, background=10, random_state=0).fit(wide)
    assert g.diagnostics_["noise"] == "the explainer's own"
    e = g.explain(wide[:3])
    assert (e.noise_variance > 0).any()
    assert e.explainer_variance.shape == (3, 6)
