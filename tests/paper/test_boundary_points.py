"""The sweep over boundary points at a toy size, and what its verdicts say of made-up numbers."""

from types import SimpleNamespace

import numpy as np
import pytest
from paper.__main__ import run_part
from paper._boundary_points_report import INFERENCE, SCALES, STAGES, biased, falls

from paper import boundary_points


@pytest.fixture(scope="module")
def run(small_data, tmp_path_factory):
    return run_part("boundary_points", "toy", folder=tmp_path_factory.mktemp("paper"))


def test_picture_and_report_are_made(run):
    made = {path.name for path in (run.folder / "figures" / "toy").iterdir()}
    assert made == {"boundary_points.png"}
    text = "\n".join([*boundary_points.report(run), *boundary_points.tables(run)])
    assert text.count("| 20 |") == 2
    assert "nan" not in text
    kept = run.values["raw units, seed 0"]["20"]
    assert set(kept["seconds"]) == {*STAGES, INFERENCE}
    assert kept["seconds"]["sampling"] > 0


def test_errors_of_known_variances():
    truth = np.array([1.0, 2.0, 2.0])
    assert boundary_points.errors(truth, truth) == pytest.approx({"error": 0, "bias": 0, "rank": 1})
    found = boundary_points.errors(2 * truth, truth)
    assert found == pytest.approx({"error": 1, "bias": 1, "rank": 1})
    assert boundary_points.errors(-truth, truth)["rank"] == pytest.approx(-1)


def test_falling_and_bias_need_two_standard_errors():
    assert falls([1.0, 1.1, 0.9], [0.5, 0.6, 0.5])
    assert not falls([1.0, 1.1, 0.9], [0.5, 1.6, 0.9])
    assert not falls([0.5, 0.6, 0.5], [1.0, 1.1, 0.9])
    assert biased([-0.5, -0.6, -0.4])
    assert not biased([-0.5, 0.6, -0.4])
    assert not biased([0.01, 0.011, 0.012])


@pytest.mark.parametrize(
    ("errors", "seconds", "words", "word"),
    [
        ((1.0, 0.5), (1.0, 9.0), "There is a trade", "holds"),
        ((0.5, 1.0), (1.0, 9.0), "We see no trade", "fails"),
        ((1.0, 0.5), (9.0, 1.0), "More points are better and no dearer", "fails"),
    ],
)
def test_the_verdict_follows_the_numbers(run, errors, seconds, words, word):
    stages = run.values["raw units, seed 0"]["20"]["seconds"]
    made = {"20": (errors[0], seconds[0]), "60": (errors[1], 5.0), "120": (0.0, seconds[1])}
    values = {
        f"{scale}, seed {seed}": {
            J: {
                "error": error + seed / 100,
                "bias": 0.5 + seed / 100,
                "seconds": dict.fromkeys(stages, second + seed / 100),
            }
            for J, (error, second) in made.items()
        }
        for scale in SCALES
        for seed in range(2)
    }
    made = SimpleNamespace(settings=run.settings, values=values, size="toy")
    text = "\n".join(boundary_points.report(made))
    assert f"\n{words}" in text
    assert "33.3% of the training" in text
    assert "is NOT paid once" in text
    assert "off by +50% in raw units" in text
    assert [one.verdict for one in boundary_points.verdicts(made)] == [word, "fails"]
