"""Fig. 4 and 14 at a toy size; the planes and the five methods behind them."""

import numpy as np
import pytest
from paper.__main__ import run_part
from paper._methods import METHODS, attributions_of, fit_gpec, widths
from paper._planes import pack, plane, rank_agreement, real_changes, unpack

from paper import heatmaps


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_part("heatmaps", "toy", folder=tmp_path_factory.mktemp("paper"))


@pytest.fixture(scope="module")
def scene():
    return plane("Synthetic", n_train=20, n_boundary=100)


def test_pictures_and_report_are_made(run):
    made = {path.name for path in (run.folder / "figures" / "toy").iterdir()}
    assert made == {"fig04_heatmaps_x.png", "fig14_heatmaps_y.png"}
    text = "\n".join([*heatmaps.report(run), *heatmaps.tables(run)])
    assert text.count("figures/toy/") == 2
    assert "nan" not in text


def test_surfaces_have_a_number_for_each_cell(run):
    first = run.values["Synthetic, draw 0"]
    assert set(first) == set(METHODS)
    for method in METHODS:
        for surface in first[method]["surface"]:
            assert unpack(surface).shape == (64,)
    assert "surface" not in run.values["Synthetic, draw 1"]["GPEC"]


def test_published_widths_of_gpec_are_four_sigma_of_eq_2(scene):
    g = fit_gpec(scene.model, scene.X_train, published=True, lam=0.5, rho=0.5, boundary=scene.boundary)
    grid = scene.grid(5)
    K = g.kernel_.gram(np.vstack((scene.X_train, grid)))
    near, known = K[20:, :20], K[:20, :20] + 1e-4 * np.eye(20)
    variance = 1 - np.einsum("ij,ji->i", near, np.linalg.solve(known, near.T))
    found = widths("GPEC", scene.model, scene.X_train, grid, published=True, lam=0.5, rho=0.5, boundary=scene.boundary)
    np.testing.assert_allclose(found, 4 * np.sqrt(variance)[:, None] * [1, 1], atol=1e-6)


def test_conventions(scene):
    def both(method):
        return [
            widths(method, scene.model, scene.X_train, scene.grid(4), published=p, boundary=scene.boundary)
            for p in (True, False)
        ]

    for method in ("BayesSHAP", "BayesLIME"):
        half, full = both(method)
        np.testing.assert_allclose(full, 2 * half)
    published, own = both("Naive-GP")
    assert published.shape == own.shape == (16, 2)
    assert (published <= 4).all()
    twice = attributions_of(scene.model, scene.X_train) * 2
    doubled = widths("Naive-GP", scene.model, scene.X_train, scene.grid(4), attributions=twice)
    np.testing.assert_allclose(doubled, 2 * own, rtol=1e-4)  # in units of the attributions


def test_standardised_distances_do_not_depend_on_units(scene):
    known, grid = attributions_of(scene.model, scene.X_train), scene.grid(4)
    metres, millimetres = (
        widths("Naive-GP", None, scene.X_train * unit, grid * unit, attributions=known, standardize=True)
        for unit in ([1, 1], [1000, 1])
    )
    np.testing.assert_allclose(metres, millimetres, rtol=1e-6)


def test_real_changes_are_those_of_exact_shapley_values(scene):
    n = 6
    grid, background = scene.grid(n).to_numpy(), scene.X_train.to_numpy()

    def worth(rows):
        return scene.model.predict_proba(rows)[:, 1].mean()

    values = []
    for x in grid:
        first, second = background.copy(), background.copy()
        first[:, 0], second[:, 1] = x[0], x[1]
        whole, none, one, two = worth(x[None]), worth(background), worth(first), worth(second)
        values.append(((one - none + whole - two) / 2, (two - none + whole - one) / 2))
    values = np.array(values).reshape(n, n, 2)
    np.testing.assert_allclose(
        real_changes(scene, n).reshape(n, n, 2)[2, 3], values[1:4, 2:5].reshape(9, 2).std(axis=0), atol=1e-9
    )


def test_rows_of_the_grid_go_from_left_to_right_and_upwards(scene):
    grid = scene.grid(4)
    assert grid.iloc[0].tolist() == [-7.5, -7.5]
    assert grid.iloc[1].tolist() == [-2.5, -7.5]
    assert grid.iloc[-1].tolist() == [7.5, 7.5]
    assert scene.away(scene.X_train).max() == 0


def test_helpers():
    np.testing.assert_allclose(unpack(pack(np.array([[0.12345, 2.0]]))), [0.123, 2.0])
    assert rank_agreement(np.arange(5.0), np.arange(5.0) ** 3) == pytest.approx(1)
    assert rank_agreement(np.ones(5), np.arange(5.0)) == 0


def test_verdicts():
    assert heatmaps.region_verdict([2.0, 2.1, 1.9])
    assert not heatmaps.region_verdict([2.0, 0.1, 1.9])
    variation = {"GPEC": 1.0, "BayesSHAP": 0.1, "BayesLIME": 0.6, "CXPlain": 0.4}
    assert heatmaps.uniform(variation) == ["BayesSHAP", "CXPlain"]


def test_the_report_says_the_opposite_of_other_numbers(run):
    for draw in (0, 1):
        for method in METHODS:
            one = run.values[f"Synthetic, draw {draw}"][method]
            one["variation"], one["region over rest"] = [1.0, 1.0], [0.5, 0.5]
    text = "\n".join(heatmaps.report(run))
    assert "where the paper sees it on no plane" in text
    assert "as much as GPEC: BayesSHAP on Synthetic; BayesLIME on Synthetic; CXPlain on Synthetic" in text
    assert [one.verdict for one in heatmaps.verdicts(run)] == ["fails", "fails"]
    for draw in (0, 1):
        for method in METHODS:
            one = run.values[f"Synthetic, draw {draw}"][method]
            one["variation"] = [1.0 if method == "GPEC" else 0.1] * 2
            one["region over rest"] = [2.0 + draw / 10] * 2
            one["agreement with changes"] = [0.9 if method == "GPEC" else 0.1] * 2
    text = "\n".join(heatmaps.report(run))
    assert "where the paper sees it on all planes" in text
    assert "GPEC's follows the truth best: its rank correlation is 0.90" in text
    assert [one.verdict for one in heatmaps.verdicts(run)] == ["holds", "holds"]
