"""Superpixels, and explainers over them."""

import numpy as np
import pytest

import gpec
from extras import nn, torch
from gpec.errors import InputError, ModelCallError
from gpec.explainers import Attribution, BayesShap, Explainer, KernelShap, Lime, ShapleySampling
from gpec.images import SuperpixelExplainer, superpixels

QUARTERS = np.repeat(np.repeat(np.array([[0, 1], [2, 3]]), 4, axis=0), 4, axis=1)  # 8 x 8 pixels
WEIGHTS = np.array([0.3, 0.0, -0.2, 0.1])


def quarters(images):
    """Probability from the mean brightness of each quarter; additive, so its Shapley values are known."""
    images = np.asarray(images, dtype=float).reshape(len(images), 8, 8)
    means = np.stack([images[:, q == QUARTERS].mean(axis=1) for q in range(4)], axis=1)
    return 0.4 + means @ WEIGHTS


class Numbered(Explainer):
    """Says the number of each feature, and 10 more as its variance."""

    def _explain(self, Z, seeds):
        number = np.arange(Z.shape[1], dtype=float)
        return Attribution(np.tile(number, (len(Z), 1)), np.tile(10 + number, (len(Z), 1)))


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).uniform(size=(12, 8, 8))


class TestSuperpixels:
    def test_pieces_are_numbered_without_gaps(self, images):
        pieces = superpixels(images[0], 6)
        assert pieces.shape == (8, 8)
        assert sorted(np.unique(pieces)) == list(range(pieces.max() + 1))
        assert 2 <= pieces.max() + 1 <= 12

    def test_colours_that_differ_are_kept_apart_and_scale_does_not_matter(self):
        image = np.zeros((3, 12, 12))
        image[0, :, 6:], image[2, :6] = 1.0, 1.0
        pieces = superpixels(image, 4)
        for piece in range(pieces.max() + 1):
            assert len(np.unique(image[:, pieces == piece], axis=1).T) == 1
        assert np.array_equal(superpixels(255 * image + 7, 4), pieces)

    def test_an_empty_image(self):
        assert superpixels(np.zeros((8, 8)), 4).shape == (8, 8)

    def test_wrong_calls(self):
        with pytest.raises(InputError, match=r"image must have shape \(height, width\)"):
            superpixels(np.zeros(8))
        with pytest.raises(InputError, match="image has nan"):
            superpixels(np.full((8, 8), np.nan))
        with pytest.raises(InputError, match="n_segments=0"):
            superpixels(np.zeros((8, 8)), 0)


class TestExplainer:
    @pytest.mark.parametrize(
        ("explainer", "tolerance"),
        [("kernelshap", 1e-9), (ShapleySampling(64), 1e-9), (BayesShap(2_000), 0.03)],
        ids=["kernelshap", "shapley_sampling", "bayesshap"],
    )
    def test_values_of_an_additive_model_in_closed_form(self, images, explainer, tolerance):
        """A quarter adds its weight times its mean brightness, less that of the baseline, here 0.25."""
        over = SuperpixelExplainer(explainer, segments=QUARTERS, baseline=0.25).fit(quarters, images)
        answer = over(images[:3])
        means = np.stack([images[:3][:, q == QUARTERS].mean(axis=1) for q in range(4)], axis=1)
        expected = (WEIGHTS * (means - 0.25))[:, QUARTERS.ravel()]
        np.testing.assert_allclose(answer.values, expected, atol=tolerance)
        np.testing.assert_allclose(answer.base_values, 0.4 + WEIGHTS.sum() * 0.25, atol=tolerance)

    @pytest.mark.parametrize("explainer", ["lime", "bayeslime"])
    def test_regressions_find_the_signs(self, images, explainer):
        answer = SuperpixelExplainer(explainer, segments=QUARTERS, baseline=0.0).fit(quarters, images)(images[:2])
        by_quarter = np.stack([answer.values[:, QUARTERS.ravel() == q][:, 0] for q in range(4)], axis=1)
        assert (by_quarter[:, 0] > 0.02).all()
        assert (by_quarter[:, 2] < -0.02).all()
        assert (np.abs(by_quarter[:, 1]) < 0.02).all()
        assert (answer.variance >= 0).all()

    def test_the_mean_of_each_superpixel_as_baseline_changes_nothing_here(self, images):
        """The model looks at means alone, which this baseline keeps."""
        answer = SuperpixelExplainer(segments=QUARTERS, baseline="mean").fit(quarters, images)(images[:2])
        np.testing.assert_allclose(answer.values, 0, atol=1e-12)

    def test_an_image_or_the_blurred_image_as_baseline(self, images):
        black = SuperpixelExplainer(segments=QUARTERS, baseline=np.zeros((8, 8))).fit(quarters, images)(images[:2])
        zero = SuperpixelExplainer(segments=QUARTERS, baseline=0.0).fit(quarters, images)(images[:2])
        assert np.array_equal(black.values, zero.values)
        blur = SuperpixelExplainer(segments=QUARTERS, baseline="blur").fit(quarters, images)(images[:2])
        assert 0 < np.abs(blur.values).max() < np.abs(zero.values).max()

    def test_pixels_of_a_superpixel_share_its_value_in_all_channels(self):
        rng = np.random.default_rng(1)
        rows = rng.uniform(size=(6, 3, 8, 8))
        over = SuperpixelExplainer(KernelShap(64), n_segments=5, compactness=1.0, baseline=0.0)
        answer = over.fit(lambda X: X[:, 0].mean(axis=(1, 2)), rows)(rows[:2])
        assert answer.values.shape == (2, 192)
        for image, values in zip(rows[:2], answer.values.reshape(2, 3, 8, 8), strict=True):
            pieces = superpixels(image, 5, compactness=1.0)
            assert np.array_equal(values[0], values[1])
            assert all(len(np.unique(values[0][pieces == piece])) == 1 for piece in range(pieces.max() + 1))
            assert len(np.unique(values[0])) > 1

    def test_each_pixel_gets_what_its_superpixel_has(self, images):
        over = SuperpixelExplainer(Numbered(), segments=QUARTERS, baseline=0.0).fit(quarters, images)
        answer = over(images[:2])
        assert np.array_equal(answer.values, np.tile(QUARTERS.ravel(), (2, 1)))
        assert np.array_equal(answer.variance, np.tile(10 + QUARTERS.ravel(), (2, 1)))

    def test_several_classes(self, images):
        def three(X):
            p = quarters(X)
            return np.column_stack((p / 2, p / 2, 1 - p))

        answer = SuperpixelExplainer(segments=QUARTERS, baseline=0.0).fit(three, images)(images[:2])
        two = SuperpixelExplainer(segments=QUARTERS, baseline=0.0).fit(quarters, images)(images[:2])
        assert answer.values.shape == (2, 64, 3)
        np.testing.assert_allclose(answer.values[:, :, 0], two.values / 2, atol=1e-12)
        np.testing.assert_allclose(answer.values.sum(axis=2), 0, atol=1e-12)

    def test_rows_one_by_one_give_the_same(self, images):
        over = SuperpixelExplainer(Lime(50), n_segments=6, baseline=0.0).fit(quarters, images)
        together = over(images[:4])
        single = np.concatenate([over(images[i : i + 1]).values for i in range(4)])
        np.testing.assert_allclose(single, together.values, atol=1e-12)

    def test_flattened_rows_need_the_shape(self, images):
        flat = images.reshape(12, 64)
        with pytest.raises(InputError, match="image_shape=None does not fit rows of 64 numbers"):
            SuperpixelExplainer().fit(quarters, flat)
        over = SuperpixelExplainer(segments=QUARTERS, baseline=0.0, image_shape=(8, 8)).fit(quarters, flat)
        assert over(flat[:2]).values.shape == (2, 64)

    def test_errors_of_the_model_name_the_image(self, images):
        def fails(X):
            if (np.asarray(X).reshape(len(X), -1)[:, 0] == images[3, 0, 0]).any():
                raise ValueError("no memory")
            return quarters(X)

        over = SuperpixelExplainer(segments=QUARTERS, baseline=0.0).fit(fails, images[:3])
        with pytest.raises(ModelCallError, match=r"no memory; this was while explaining row 2") as caught:
            over(images[1:5])
        assert isinstance(caught.value.__cause__, ValueError)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n_segments": 0}, "n_segments=0"),
            ({"compactness": -1}, "compactness=-1"),
            ({"segments": np.zeros((4, 4), dtype=int)}, r"segments has shape \(4, 4\), but images are \(8, 8\)"),
            ({"segments": np.zeros(64, dtype=int)}, r"segments must have shape \(height, width\)"),
            ({"baseline": "grey"}, "baseline='grey' is not one of 'mean', 'blur'"),
            ({"baseline": np.zeros((4, 4))}, r"baseline has shape \(4, 4\); expected a number or \(8, 8\)"),
            ({"image_shape": (7, 8)}, r"image_shape=\(7, 8\) does not fit rows of 64 numbers"),
            ({"explainer": "nonsense"}, "explainer='nonsense' is not one of"),
        ],
    )
    def test_bad_parameters(self, images, options, message):
        with pytest.raises(InputError, match=message):
            SuperpixelExplainer(**options).fit(quarters, images)


@pytest.mark.parametrize("explainer", ["captum:Saliency", "captum:IntegratedGradients"])
def test_pixels_by_captum(explainer):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    rows = np.random.default_rng(0).uniform(size=(20, 1, 8, 8))
    answer = gpec.explainers.make_explainer(explainer).fit(network, rows)(rows[:2])
    assert answer.values.shape == (2, 64, 3)
    assert np.abs(answer.values).max() > 0


def test_functions_may_answer_in_the_shape_of_images(images):
    def explain(rows):
        return rows * WEIGHTS[QUARTERS]

    answer = gpec.explainers.CallableExplainer(explain).fit(quarters, images)(images[:3])
    assert np.array_equal(answer.values, (images[:3] * WEIGHTS[QUARTERS]).reshape(3, 64))


def test_gpec_explains_images_of_a_network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3))
        with torch.no_grad():
            network[3].weight.mul_(5)
    rows = np.random.default_rng(3).uniform(size=(150, 1, 8, 8))
    g = gpec.GPEC(
        network,
        SuperpixelExplainer(KernelShap(64), segments=QUARTERS, baseline=0.5),
        boundary=gpec.boundary.AdversarialSampler(30, 15),
        kernel="weg",
        n_explained=20,
        standardize=False,
        random_state=0,
    )
    e = g.fit(rows).explain(rows[:2])
    assert e.values.shape == e.variance.shape == (2, 64, 3)
    assert (e.variance > 0).all()
    # pixels of one superpixel are the same feature four times over
    assert np.allclose(e.variance[:, 0], e.variance[:, 1])
