"""Fig. 10 to 12 at a toy size, and what their verdict says of made-up numbers."""

import numpy as np
import pytest
from paper.__main__ import run_part
from paper._methods import widths
from paper._planes import plane, unpack

from paper import sensitivity


@pytest.fixture(scope="module")
def run(small_data, tmp_path_factory):
    return run_part("sensitivity", "toy", folder=tmp_path_factory.mktemp("paper"))


def test_pictures_and_report_are_made(run):
    made = {path.name for path in (run.folder / "figures" / "toy").iterdir()}
    assert made == {"fig10_german_credit.png"}
    text = "\n".join([*sensitivity.report(run), *sensitivity.tables(run)])
    assert text.count("figures/toy/") == 1
    assert "nan" not in text


def test_refitting_with_other_parameters_gives_what_a_fresh_fit_gives(run):
    scene = plane("German Credit", n_train=20)
    fresh = widths(
        "GPEC",
        scene.model,
        scene.X_train,
        scene.grid(8),
        published=True,
        lam=0.5,
        rho=1.0,
        n_boundary=100,
        pool=scene.pool,
    )
    kept = unpack(run.values["German Credit, draw 0"]["lambda 0.5, rho 1"]["surface"])
    np.testing.assert_allclose(kept, fresh[:, 0], rtol=6e-3, atol=1e-3)


def test_rising_means_from_first_to_last_beyond_two_errors():
    assert sensitivity.rises([[1, 2, 3], [1.1, 2.1, 3.3]])
    assert not sensitivity.rises([[1, 2, 1.1], [1.1, 2.1, 1.0]])
    assert sensitivity.rises([[1, 3, 2], [1, 3.1, 2.1]])
    assert not sensitivity.rises([[1, 3, 2], [1, 3.1, 2.1]], every_step=True)
    assert not sensitivity.rises([[1, 2, 3], [3, 2, 1]])


def test_the_report_says_the_opposite_of_other_numbers(run):
    for i in range(2):
        for one in run.values[f"German Credit, draw {i}"].values():
            one["mean"] = 1.0 + i
            one["agreement with changes"] = 0.9
    text = "\n".join(sensitivity.report(run))
    assert "with lambda at every rho on no plane" in text
    assert "the width follows them" in text
    assert "no choice makes" not in text
    assert sensitivity.verdicts(run)[0].verdict == "fails"
    for i in range(2):
        for j, one in enumerate(run.values[f"German Credit, draw {i}"].values()):
            one["mean"] = 1.0 + j + i / 100
    assert sensitivity.verdicts(run)[0].verdict == "holds"
