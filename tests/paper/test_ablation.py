"""Fig. 6 and 13 at a toy size, and what their verdicts say of made-up numbers."""

import numpy as np
import pytest
from paper.__main__ import run_part
from paper._ablation_report import BAYES, DRAWN, EXPLAINERS, adds_up, exceeds
from paper._planes import plane

from paper import ablation


@pytest.fixture(scope="module")
def run(small_data, tmp_path_factory):
    return run_part("ablation", "toy", folder=tmp_path_factory.mktemp("paper"))


def test_pictures_and_report_are_made(run):
    made = {path.name for path in (run.folder / "figures" / "toy").iterdir()}
    assert made == {"fig06_ablation.png", "fig13_samples.png"}
    text = "\n".join([*ablation.report(run), *ablation.tables(run)])
    assert "The parts add up" in text
    assert text.count("figures/toy/") == 2
    assert "nan" not in text


def test_contributions_of_both_orders_average_to_shapley_values(small_data):
    scene = plane("German Credit", n_train=6)
    X = scene.X_train.to_numpy()
    contributions = ablation._contributions(scene)
    assert contributions.shape == (6, 7, 2, 2)

    def answer(*row):
        return scene.probability(
            scene.X_train.iloc[:1]
            .set_axis(scene.features, axis=1)
            .assign(**dict(zip(scene.features, row, strict=True)))
        )[0]

    for i, b in ((0, 3), (4, 0)):
        base = X.mean(axis=0) if b == 0 else X[b - 1]
        x = X[i]
        first = answer(x[0], base[1]) - answer(*base)
        last = answer(*x) - answer(base[0], x[1])
        assert contributions[i, b, :, 0].mean() == pytest.approx((first + last) / 2, abs=1e-6)
        assert contributions[i, b].sum() == pytest.approx(2 * (answer(*x) - answer(*base)), abs=1e-6)


def test_more_samples_mean_less_noise():
    rng = np.random.default_rng(0)
    contributions = rng.normal(size=(3, 50, 2, 2))
    spread = [ablation.sampled(contributions, n, rng, repeats=400).var(axis=0) for n in (5, 200)]
    np.testing.assert_allclose(spread[0] / spread[1], 40, rtol=0.5)


def test_dense_variance_is_that_of_scikit_learn():
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF

    rng = np.random.default_rng(0)
    X, Q, noise = rng.normal(size=(8, 2)), rng.normal(size=(5, 2)), rng.uniform(0.01, 0.2, size=8)
    kernel = RBF(1.0)
    std = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X, X[:, 0]).predict(Q, return_std=True)[1]
    np.testing.assert_allclose(ablation.dense_variance(kernel(X), kernel(Q, X), noise), std**2, rtol=1e-9)


def test_changes_beyond_error_are_told_from_chance():
    rng = np.random.default_rng(0)
    many, few = (rng.normal(1, 0.01, size=(8, 50)) for _ in range(2))
    assert ablation.changes(many, few)["share lower beyond error"] == 0
    few[:, 7] -= 0.2
    lower = ablation.changes(many, few)
    assert lower["share lower beyond error"] == pytest.approx(1 / 50)
    assert lower["least change in errors"] < -4
    assert ablation.changes(many, many + 1)["share higher"] == 1


def test_verdicts():
    assert adds_up([1e-7, 1e-9])
    assert not adds_up([1e-7, 1e-3])
    assert exceeds([2.0, 20.0, 200.0], [1.0, 9.0, 110.0])
    assert not exceeds([2.0, 1.0, 1.0], [1.0, 2.0, 1.0])


def test_the_report_says_the_opposite_of_other_numbers(run):
    for values in run.values.values():
        for explainer in EXPLAINERS:
            values[explainer].update({"gap": 0.1, "noise part": 1.0, "share lower beyond error": 0.3})
        values[BAYES]["noise part"] = 0.1
    text = "\n".join(ablation.report(run))
    assert "do NOT add up" in text
    assert "up to 30.0% of the cells" in text
    assert "not on German Credit" in text
    assert [one.verdict for one in ablation.verdicts(run)] == ["fails", "fails", "fails"]
    for i, values in enumerate(run.values.values()):
        for explainer in EXPLAINERS:
            values[explainer].update({"gap": 0.0, "noise part": 1.0, "share lower beyond error": 0.0})
        values[BAYES]["noise part"] = 5.0 + i
    assert [one.verdict for one in ablation.verdicts(run)] == ["holds", "holds", "holds"]
    for values in run.values.values():
        values[DRAWN]["noise part"] = 9.0
    assert ablation.verdicts(run)[1].verdict == "holds in part"
