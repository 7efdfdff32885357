"""Fig. 1, 3 and 9 at a toy size, and what their verdicts say of made-up numbers."""

import copy

import numpy as np
import pytest
from paper.__main__ import run_part
from paper._curves import boundary_points

from paper import illustrations


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_part("illustrations", "toy", folder=tmp_path_factory.mktemp("paper"))


def test_pictures_and_report_are_made(run):
    made = {path.name for path in (run.folder / "figures" / "toy").iterdir()}
    assert made == {"fig01_smoothness.png", "fig03_kernel.png", "fig09_balls.png"}
    text = "\n".join([*illustrations.report(run), *illustrations.tables(run)])
    assert text.count("figures/toy/") == 3
    assert "nan" not in text


def test_the_gradient_is_the_derivative():
    rows = np.array([[1.3, 2.5], [0.7, 2.0]])
    for model in illustrations.MODELS.values():
        for j in range(2):
            step = np.eye(2)[j] * 1e-6
            slope = (model.predict_proba(rows + step)[:, 1] - model.predict_proba(rows - step)[:, 1]) / 2e-6
            np.testing.assert_allclose(model.gradient(rows)[:, j], slope, rtol=1e-6)


def test_patients_are_alike_and_differ_only_under_the_complex_boundary(run):
    found = run.values["patients"]
    for patients in found.values():
        assert len({one["probability"] > 0.5 for one in patients.values()}) == 1
    assert [one["top"] for one in found["complex boundary"].values()] == ["cholesterol", "sodium"]
    assert [one["top"] for one in found["smoothed boundary"].values()] == ["sodium", "sodium"]
    assert min(run.values["pairs, complex boundary"]) > max(run.values["pairs, smoothed boundary"])


def test_points_lie_evenly_along_the_boundary():
    points = boundary_points("x2 = abs(x1)", 101)
    np.testing.assert_allclose(points[:, 1], np.abs(points[:, 0]))
    np.testing.assert_allclose(np.linalg.norm(np.diff(points, axis=0), axis=1), 0.2 * np.sqrt(2), rtol=1e-3)


def test_on_a_line_both_balls_are_alike(run):
    for near, plain in run.values["balls, x2 = x1"].values():
        assert near == pytest.approx(plain, abs=0.02)


def test_verdicts():
    assert illustrations.shrinks([(0.5, 1), (0.4, 1), (0.1, 1)])
    assert not illustrations.shrinks([(0.5, 1), (0.5, 1), (0.1, 1)])
    assert illustrations.smaller([(0.5, 0.4), (0.2, 0.3)]) == [1]


def test_the_report_says_the_opposite_of_other_numbers(run):
    patients = run.values["patients"]["complex boundary"]
    kept = patients["B"]["top"]
    patients["B"]["top"] = "cholesterol"
    assert "**Fails.** Two patients" in "\n".join(illustrations.report(run))
    assert illustrations.verdicts(run)[0].verdict == "fails"
    patients["B"]["top"] = kept
    assert "**Holds.** Two patients" in "\n".join(illustrations.report(run))


@pytest.mark.parametrize(
    ("near", "word"), [((0.1, 0.1, 0.1), "holds"), ((0.9, 0.9, 0.1), "holds in part"), ((0.9, 0.9, 0.9), "fails")]
)
def test_the_verdict_on_balls_follows_the_numbers(run, near, word):
    kept = copy.deepcopy(run.values)
    for name in ("x2 = 2 cos(10 / x1)", "x2 = abs(x1)"):
        run.values[f"balls, {name}"] = {f"{rho:g}": [x, 0.5] for rho, x in zip(run.settings["rhos"], near, strict=True)}
    assert illustrations.verdicts(run)[1].verdict == word
    run.values = kept
