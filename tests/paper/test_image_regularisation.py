"""The regularisation test of networks at a toy size, on scikit-learn's digits, and what it says of made-up numbers."""

from __future__ import annotations

import copy

import matplotlib as mpl
import numpy as np
import pytest
from paper.__main__ import run_part
from paper._image_regularisation_report import parts
from paper._models import images, network
from paper._published import MEANS
from paper._regularised import OURS
from paper._regularised_images import METHODS, _norm, _pooled, _similar, patches
from sklearn.neighbors import NearestNeighbors

from paper import image_regularisation

FALLS = [[1.0, 0.9, 0.5], [1.1, 1.0, 0.7], [0.9, 0.9, 0.4]]
RISES = [row[::-1] for row in FALLS]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    mpl.use("Agg")
    return run_part("image_regularisation", "toy", folder=tmp_path_factory.mktemp("paper"))


def told(run, said, actual, weights=FALLS):
    """The run as if three trainings had found these numbers, for every method."""
    other = copy.copy(run)
    other.settings = {**run.settings, "draws": {"digits": 3}}
    other.values = {}
    for what in ("l2", "beta"):
        for seed in range(3):
            one = copy.deepcopy(run.values[f"digits, {what}, draw 0"])
            one |= dict.fromkeys((*METHODS, OURS), said[seed])
            other.values[f"digits, {what}, draw {seed}"] = one | {"actual": actual[seed], "weights": weights[seed]}
    return other


def test_toy_runs_draws_and_tells(toy):
    assert (toy.folder / "figures" / "toy" / "table1_images.png").stat().st_size > 5_000
    for name, _, numbers in parts(toy):
        assert name == "digits"
        for method in (*METHODS, OURS):
            assert numbers[method].shape == (1, 3)
            assert (numbers[method] > 0).all()
            assert (np.abs(numbers[f"rank {method}"]) <= 1).all()
        assert (numbers["GPEC"] <= 4).all()
        assert (numbers["actual"] > 0).all()
        assert ((numbers["covered"] > 0) & (numbers["covered"] <= 1)).all()
    short, whole = (" ".join(text(toy)) for text in (image_regularisation.report, image_regularisation.tables))
    assert "nan" not in short + whole
    assert len(short.split()) <= 330  # of which the table is a part
    assert all(one.verdict != "holds" for one in image_regularisation.verdicts(toy))  # one training settles nothing


def test_verdicts_follow_the_numbers(toy):
    def words(said, actual):
        return [one.verdict for one in image_regularisation.verdicts(told(toy, said, actual))]

    assert words(FALLS, FALLS) == ["holds", "holds", "holds"]
    assert words(RISES, FALLS) == ["fails", "holds", "fails"]
    assert words(FALLS, RISES) == ["holds", "fails", "fails"]
    assert words(RISES, RISES) == ["fails", "fails", "holds"]  # noticing a rise is noticing, too


def test_the_report_follows_the_numbers(toy):
    down = "\n".join(image_regularisation.report(told(toy, FALLS, FALLS)))
    assert "**Holds.** GPEC's width falls on 2, rises on 0, unsettled on 0 of 2" in down
    assert "The penalty did act" in down
    assert "| GPEC, published | -47" in down
    assert "2 of 2" in down
    up = "\n".join(image_regularisation.report(told(toy, RISES, FALLS, weights=[[1.0, 1.0, 1.0]] * 3)))
    assert "**Fails.** GPEC's width falls on 0, rises on 2" in up
    assert "0 of 2" in up
    assert "The penalty hardly acted on digits" in up


def test_what_the_paper_leaves_out_is_left_out(toy):
    run = told(toy, FALLS, FALLS)
    assert MEANS["CIFAR-10", "l2"]["BayesSHAP"] is None
    for one in run.values.values():
        del one["BayesSHAP"], one["rank BayesSHAP"]
    assert "| BayesSHAP | 0.025, 0.016, 0.008 (0.00049, 0.00031, 0.00021) | not run |" in "\n".join(
        image_regularisation.tables(run)
    )
    assert "BayesSHAP" not in "\n".join(image_regularisation.report(run))


@pytest.mark.parametrize(("shape", "pixels"), [((28, 28), 49), ((3, 32, 32), 192)])
def test_patches_are_sixteen_squares_of_all_channels(shape, pixels):
    own = patches(shape)
    assert np.bincount(own).tolist() == [pixels] * 16
    square = own.reshape(-1, *shape[-2:])
    assert (square == square[0]).all()
    side = shape[-1] // 4
    assert (square[0, :side, :side] == 0).all()
    assert (square[0, -side:, :side] == 12).all()
    values = np.random.default_rng(0).normal(size=(2, own.size, 10))
    found = _pooled(values.reshape(2, -1), own)
    for i in range(16):
        np.testing.assert_allclose(found[:, i], values[:, own == i].sum(axis=1))


def test_similar_images_lie_half_way_to_the_nearest():
    X = images("digits")[0]
    pool, query = X[:100], X[100:103]
    found = _similar(pool, query, seed=0).reshape(3, 5, 64)
    flat, asked = pool.reshape(100, -1), query.reshape(3, -1)
    nearest = NearestNeighbors(n_neighbors=5).fit(flat).kneighbors(asked)[1]
    for row, near, similar in zip(asked, nearest, found, strict=True):
        expected = (row + flat[near]) / 2
        np.testing.assert_allclose(np.sort(similar, axis=0), np.sort(expected, axis=0))


def test_the_penalty_shrinks_the_weights():
    common = {"hidden": [10], "n_train": 300, "n_epochs": 15, "batch_size": 16, "seed": 0, "patience": 15}
    norms = [_norm(network("digits", "l2", level, **common)[0]) for level in (0.0, 0.1)]
    assert norms[1] < 0.9 * norms[0]
