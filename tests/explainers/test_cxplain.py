"""CXPlain: shares of the increase in loss, by an ensemble of networks."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import spearmanr

import gpec
from gpec.data import Schema
from gpec.data._background import typical_row
from gpec.errors import InputError, MissingExtraError, ModelCallError, ModelOutputError, ParameterTypeError
from gpec.explainers import make_explainer
from gpec.explainers._cxplain_networks import MLP, UNet, train
from gpec.explainers.cxplain import CXPlain, _increase, _patch_side, _patches, _shares

torch = pytest.importorskip("torch")
SMALL = {"n_estimators": 3, "n_epochs": 15, "hidden": 16}


def small(**parameters):
    return CXPlain(**{**SMALL, **parameters})


# What is learned


def test_increase_of_the_loss_in_closed_form():
    p, q = np.array([[[0.8]]]), np.array([[[0.5], [0.9], [0.8]]])
    against_label = _increase(p, q, np.ones_like(p))[0, :, 0]
    np.testing.assert_allclose(against_label, [np.log(0.8 / 0.5), 0.0, 0.0], atol=1e-12)  # 0.9 is no loss
    divergence = 0.8 * np.log(0.8 / q) + 0.2 * np.log(0.2 / (1 - q))
    np.testing.assert_allclose(_increase(p, q, p), divergence, atol=1e-12)
    assert np.isfinite(_increase(np.ones((1, 1, 1)), np.array([[[0.0], [1.0]]]), np.ones((1, 1, 1)))).all()


def test_shares():
    np.testing.assert_allclose(_shares(np.array([[[3.0], [1.0], [0.0]]])), [[[0.75], [0.25], [0.0]]])
    np.testing.assert_allclose(_shares(np.zeros((1, 4, 2))), np.full((1, 4, 2), 0.25))


@pytest.mark.parametrize("truth", ["probability", "label"])
@pytest.mark.parametrize("classes", [2, 3])
def test_increases_are_those_of_rows_masked_one_by_one(models, X, classes, truth):
    function = models.curved if classes == 2 else models.three_classes
    explainer = small(truth=truth).fit(function, X, background=30)
    mean = explainer.background_.mean(axis=0)
    found = explainer._increases(X[:5], np.arange(5))
    assert found.shape == (5, 3, 1 if classes == 2 else 3)
    for i in range(5):
        p = function(X[i : i + 1]).reshape(-1)
        predicted = [p[0] > 0.5] if classes == 2 else np.arange(3) == p.argmax()
        t = p if truth == "probability" else np.asarray(predicted, dtype=float)
        for j in range(3):
            masked = X[i : i + 1].copy()
            masked[0, j] = mean[j]
            q = function(masked).reshape(-1)
            increase = -t * np.log(q) - (1 - t) * np.log(1 - q) + t * np.log(p) + (1 - t) * np.log(1 - p)
            np.testing.assert_allclose(found[i, j], np.maximum(increase, 0), atol=1e-12)


def test_blocks_of_rows_do_not_matter(models, X, monkeypatch):
    explainer = small().fit(models.three_classes, X)
    whole = explainer._increases(X, np.arange(len(X)))
    monkeypatch.setattr("gpec.explainers.cxplain._NUMBERS_AT_ONCE", 100)
    np.testing.assert_allclose(explainer._increases(X, np.arange(len(X))), whole, atol=1e-14)


@pytest.mark.parametrize(("n_train", "trained_on"), [(50, 50), (10_000, 120)])
def test_cost_in_model_rows(models, counting, X, n_train, trained_on):
    model = counting(models.curved)
    explainer = small(n_train=n_train).fit(model, X)
    spent = model.n_rows
    assert 0 <= spent - trained_on * 4 <= 10
    explainer(X)
    assert model.n_rows == spent  # no model is needed any more


def test_masked_category_is_the_most_frequent(mixed):
    table, Z = Schema.learn(mixed.frame)
    row = typical_row(Z[:50], table)
    for j, name in enumerate(mixed.frame.columns):
        if j in table.categories:
            assert table.categories[j][int(row[j])] == mixed.frame[name][:50].mode()[0]
        else:
            assert row[j] == pytest.approx(mixed.frame[name][:50].mean())


def test_the_typical_row():
    rows = pd.DataFrame(
        {
            "number": [1.0, np.nan, 3.0, np.nan],
            "mostly none": ["a", None, None, "b"],
            "mostly a": ["a", "a", None, "b"],
            "never": [np.nan, np.nan, np.nan, np.nan],
        }
    )
    schema, Z = Schema.learn(rows, categorical_features=["mostly none", "mostly a"])
    np.testing.assert_array_equal(typical_row(Z, schema), [2.0, np.nan, 0.0, np.nan])
    np.testing.assert_array_equal(typical_row(Z[[0, 3]], schema), [1.0, 0.0, 0.0, np.nan])


# The networks


def test_network_learns_given_shares():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 2))
    left = expit(3 * rows[:, 0])
    targets = np.stack((left, 1 - left, np.zeros(400)), axis=1)[:, :, None]
    layers = MLP(2, 3, 1, 32)
    weights = train(layers, rows[:300], targets[:300], [np.random.default_rng(s) for s in range(3)], 40)
    shares = layers.shares(weights, rows[300:])
    np.testing.assert_allclose(shares.sum(axis=2), 1.0, atol=1e-12)
    assert np.abs(shares.mean(axis=0) - targets[300:]).mean() < 0.03


def test_each_member_has_a_bootstrap_sample():
    """Of two rows some members see one only, and have nothing to say of the other."""
    layers = MLP(1, 2, 1, 16)
    rows, targets = np.array([[-1.0], [1.0]]), np.array([[[1.0], [0.0]], [[0.0], [1.0]]])
    weights = train(layers, rows, targets, [np.random.default_rng(s) for s in range(12)], 60)
    right = layers.shares(weights, rows)[:, [0, 1], [0, 1], 0]  # each row's own part
    assert right.min() < 0.6
    assert right.min(axis=1).max() > 0.8


def test_members_do_not_depend_on_the_ensemble():
    rows = np.random.default_rng(0).normal(size=(80, 2))
    targets = np.full((80, 2, 1), 0.5)
    layers = MLP(2, 2, 1, 8)
    two, four = (train(layers, rows, targets, [np.random.default_rng(s) for s in range(n)], 3) for n in (2, 4))
    for a, b in zip(two, four, strict=True):
        np.testing.assert_allclose(a, b[:2], atol=1e-5)
    assert np.abs(four[0][0] - four[0][1]).max() > 0.1


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 7, 10), (2, 5, 3)])
@pytest.mark.parametrize("patch", [1, 2, 3, 4])
def test_unet_sees_each_patch(shape, patch):
    """Shapes, odd sizes included, and that all pixels can matter."""
    layers = UNet(shape, patch, 2, 4)
    weights = [np.stack(parts) for parts in zip(*(layers.draw(np.random.default_rng(s)) for s in (0, 1)), strict=True)]
    rows = np.random.default_rng(2).normal(size=(3, int(np.prod(shape))))
    shares = layers.shares(weights, rows)
    parts = -(-shape[1] // patch) * -(-shape[2] // patch)
    assert shares.shape == (2, 3, parts, 2)
    np.testing.assert_allclose(shares.sum(axis=2), 1.0)
    assert parts == _patches(shape, patch).max() + 1
    rows = torch.as_tensor(rows).requires_grad_(True)
    tensors = [torch.as_tensor(weight) for weight in weights]
    layers.log_shares(tensors, rows.expand(2, *rows.shape)).square().sum().backward()
    assert (rows.grad != 0).float().mean() > 0.9


def test_grouped_members_are_single_networks():
    shape = (2, 6, 9)
    layers = UNet(shape, 2, 1, 4)
    members = [layers.draw(np.random.default_rng(s)) for s in range(3)]
    rows = np.random.default_rng(2).normal(size=(4, 108))
    together = layers.shares([np.stack(parts) for parts in zip(*members, strict=True)], rows)
    for member, shares in zip(members, together, strict=True):
        np.testing.assert_allclose(layers.shares([weight[None] for weight in member], rows)[0], shares, atol=1e-12)


def test_patches():
    np.testing.assert_array_equal(
        _patches((1, 3, 5), 2).reshape(3, 5), [[0, 0, 1, 1, 2], [0, 0, 1, 1, 2], [3, 3, 4, 4, 5]]
    )
    for h, w in ((8, 8), (28, 28), (32, 32), (224, 224), (5, 300)):
        side = _patch_side((3, h, w), "auto")
        assert -(-h // side) * -(-w // side) <= 64
        assert side == 1 or -(-h // (side - 1)) * -(-w // (side - 1)) > 64
    assert _patch_side((1, 9, 9), 5) == 5


# What it says


def additive(weights):
    return lambda X: expit(np.asarray(X, dtype=np.float64) @ weights)


@pytest.mark.parametrize("seed", [0, 1])
def test_finds_the_true_effects(seed):
    """Five features of ten matter; a full run with five seeds is in the benchmarks."""
    rng = np.random.default_rng(seed)
    weights = rng.permutation([2.5, -2.0, 1.5, -1.0, 0.5, 0, 0, 0, 0, 0])
    X = rng.normal(size=(300, 10))
    explainer = CXPlain(n_estimators=4, n_epochs=30).fit(additive(weights), X[:200], random_state=seed)
    found = explainer(X[200:])
    assert spearmanr(np.abs(found.values).mean(axis=0), np.abs(weights))[0] >= 0.9
    np.testing.assert_allclose(found.values.sum(axis=1), 1.0, atol=1e-9)
    assert (found.values >= 0).all()


def test_spread_shrinks_with_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 6))
    model = additive(np.array([2.0, -1.5, 1.0, 0, 0, 0]))
    spreads = [CXPlain(n_estimators=6, n_epochs=30).fit(model, X[:n])(X[800:]).variance.mean() for n in (50, 200, 800)]
    assert spreads[0] > 1.5 * spreads[1] > 1.5**2 * spreads[2] > 0


def test_variance_is_that_of_the_members(models, X):
    explainer = small(n_estimators=4).fit(models.three_classes, X)
    found = explainer(X[:5])
    shares = explainer._architecture.shares(explainer.weights_, explainer._inputs(X[:5]))
    assert shares.shape == (4, 5, 3, 3)
    np.testing.assert_allclose(found.values, shares.mean(axis=0))
    np.testing.assert_allclose(found.variance, ((shares - shares.mean(axis=0)) ** 2).sum(axis=0) / 3)
    assert explainer.stochastic is False


def test_each_class_has_shares_of_its_own():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))

    def model(X):  # class 0 by feature 0 alone
        p = expit(3 * X[:, 0])
        q = expit(3 * X[:, 1])
        return np.column_stack((p, (1 - p) * q, (1 - p) * (1 - q)))

    found = small(n_epochs=30).fit(model, X)(X).values.mean(axis=0)
    assert found.shape == (3, 3)
    assert found[0, 0] > 0.9
    assert found[1, 1] > 0.2
    assert found[2].max() < 0.1


def test_a_model_that_needs_nothing_gives_equal_shares(X):
    found = small().fit(lambda X: np.full(len(X), 0.3), X)(X[:4])
    np.testing.assert_allclose(found.values, 1 / 3, atol=0.05)


def bright_patch(n, seed):
    """Images with one bright patch of 4 x 4, and its place; the model sees how bright it is."""
    rng = np.random.default_rng(seed)
    images, place = 0.1 * rng.uniform(size=(n, 8, 8)), rng.integers(2, size=(n, 2))
    for image, (a, b) in zip(images, place, strict=True):
        image[4 * a : 4 * a + 4, 4 * b : 4 * b + 4] += rng.uniform(0.5, 1.0)
    return images.reshape(n, 64), place


def test_images():
    X, place = bright_patch(160, 0)
    explainer = CXPlain(n_estimators=2, n_epochs=25, hidden=4, image_shape=(1, 8, 8), patch=4)
    explainer.fit(lambda X: expit((X**2).sum(axis=1) - 6), X[:120])
    found = explainer(X[120:])
    maps = found.values.reshape(40, 2, 4, 2, 4)
    assert np.ptp(maps, axis=(2, 4)).max() == 0  # the pixels of a patch are alike
    np.testing.assert_allclose(found.values.sum(axis=1), 1.0)
    best = maps[:, :, 0, :, 0].reshape(40, 4).argmax(axis=1)
    assert (best == place[120:] @ [2, 1]).mean() > 0.8
    shares = explainer._architecture.shares(explainer.weights_, explainer._inputs(X[120:]))
    np.testing.assert_allclose(found.variance[:, 0], (shares / 16).var(axis=0, ddof=1)[:, 0, 0])
    np.testing.assert_allclose(explainer(X[123:124]).values, found.values[3:4], rtol=0, atol=1e-10)


def test_colours_and_classes():
    X = np.random.default_rng(0).uniform(size=(30, 3 * 5 * 6))
    model = lambda X: np.stack((X[:, 0], X[:, 40], 2 - X[:, 0] - X[:, 40]), axis=1) / 2  # noqa: E731
    explainer = CXPlain(n_estimators=2, n_epochs=2, hidden=2, image_shape=(3, 5, 6)).fit(model, X)
    found = explainer(X[:4])
    assert found.values.shape == found.variance.shape == (4, 90, 3)
    np.testing.assert_array_equal(found.values[:, :30], found.values[:, 60:])  # channels are masked together
    np.testing.assert_allclose(found.values.sum(axis=1), 1.0)


# Randomness


def test_same_seed_same_bits_and_generators_left_alone(models, X):
    torch.manual_seed(1)
    np.random.seed(1)
    states = torch.get_rng_state().clone(), np.random.get_state()[1].copy(), torch.get_num_threads()
    first = small().fit(models.curved, X, background=X, random_state=4)(X[:6])
    torch.manual_seed(2)
    second = small().fit(models.curved, X, background=X, random_state=4)(X[:6])
    torch.manual_seed(1)
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(first.variance, second.variance)
    third = small().fit(models.curved, X, background=X, random_state=5)(X[:6])
    assert np.abs(first.values - third.values).max() > 1e-4
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1] == states[1]).all()
    assert torch.get_num_threads() == states[2]


def test_threads_do_not_matter(models, X):
    before = torch.get_num_threads()
    try:
        answers = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            answers.append(small().fit(models.curved, X)(X[:6]).values)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(*answers)


# In a GPEC


def test_gpec_uses_its_variance_and_keeps_it_in_a_file(make, models, X, tmp_path):
    g = make(explainer=small()).fit(X)
    assert g.diagnostics_["noise"] == "the explainer's own"
    assert g.diagnostics_["unit"] == "share of the increase in loss"
    assert (g.attributions_.variance > 0).all()
    before = g.explain(X[:4])
    g.save(tmp_path / "g.gpec")
    calls = []
    again = gpec.GPEC.load(
        tmp_path / "g.gpec", model=lambda X: (calls.append(len(X)), models.curved(X))[1], explainer=small()
    )
    calls.clear()
    after = again.explain(X[:4])
    assert calls == []  # nothing is learned again
    np.testing.assert_array_equal(after.values, before.values)
    np.testing.assert_array_equal(after.explainer_variance, before.explainer_variance)


def test_categories(mixed):
    explainer = small(n_epochs=30).fit(mixed.model, mixed.frame)
    found = explainer(mixed.frame[:5])
    assert found.values.shape == (5, 5)
    first = explainer.fitted_state()["weights"][0]
    assert first.shape == (3, 3 + 3 + 2 + 2, 16)  # a 0/1 input for each category


# Faults


def test_columns_that_do_not_vary(models):
    X = np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 0.0, 1.0] + [0.0, 7.0, 1e9]
    found = small().fit(lambda X: expit(X[:, 0]), X)(X[:3])
    assert np.isfinite(found.values).all()


def test_few_rows(models, X):
    assert small().fit(models.curved, X[:2])(X[:1]).values.shape == (1, 3)


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"n_estimators": 1}, InputError),
        ({"n_estimators": 2.0}, ParameterTypeError),
        ({"n_train": 1}, InputError),
        ({"n_epochs": 0}, InputError),
        ({"hidden": 0}, InputError),
        ({"hidden": "many"}, InputError),
        ({"patch": 0}, InputError),
        ({"truth": "y"}, InputError),
        ({"image_shape": (8, 8)}, ParameterTypeError),
        ({"image_shape": 64}, ParameterTypeError),
        ({"image_shape": (1, 0, 8)}, InputError),
        ({"image_shape": (1, 8.0, 8)}, ParameterTypeError),
    ],
)
def test_bad_parameters(parameters, error):
    with pytest.raises(error, match=next(iter(parameters))):
        make_explainer(CXPlain(**parameters))


def test_image_of_another_shape(models, X, mixed):
    with pytest.raises(InputError, match=r"image_shape=\(1, 2, 2\) does not fit rows of 3 numbers and 0 categories"):
        CXPlain(image_shape=(1, 2, 2)).fit(models.curved, X)
    with pytest.raises(InputError, match="does not fit rows of 2 numbers and 3 categories"):
        CXPlain(image_shape=(1, 1, 5)).fit(mixed.model, mixed.frame)


@pytest.mark.parametrize("fault", ["raises", "nan"])
def test_model_that_fails_names_the_row(models, counting, X, fault):
    mean = X.mean(axis=0)

    def after(call, rows, p):
        bad = (rows[:, 1] == X[37, 1]) & (rows[:, 0] == mean[0])
        if fault == "raises" and bad.any():
            raise ValueError("too odd a row")
        return np.where(bad, np.nan, p)

    model = counting(models.curved, after=after)
    error = ModelCallError if fault == "raises" else ModelOutputError
    with pytest.raises(error, match="this was while CXPlain masked parts of row") as caught:
        small().fit(model, X, background=X)
    if fault == "nan":
        assert "parts of row 37." in str(caught.value)
    else:
        assert isinstance(caught.value.__cause__, ValueError)


def test_missing_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r'CXPlain needs torch.*pip install "gpec\[torch\]"'):
        make_explainer("cxplain")
