"""Fig. 5 at a toy size, and what its verdict says of made-up numbers."""

import numpy as np
import pytest
from paper.__main__ import run_part
from paper._bins_report import INNER, factor, factors_of, verdict

from paper import bins


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_part("bins", "toy", folder=tmp_path_factory.mktemp("paper"))


def test_picture_and_report_are_made(run):
    assert {path.name for path in (run.folder / "figures" / "toy").iterdir()} == {"fig05_bins.png"}
    text = "\n".join([*bins.report(run), *bins.tables(run)])
    assert "| -10 to -8 |" in text
    assert "nan" not in text


def test_an_unfinished_run_is_taken_up(run, monkeypatch):
    monkeypatch.setattr(bins, "_one", lambda *_: pytest.fail("computed again"))
    run.path.parent.mkdir(parents=True, exist_ok=True)
    run.path.write_text(run.result.read_text())
    again = run_part("bins", "toy", folder=run.folder)
    assert again.values == run.values


def test_bins_are_two_wide_and_four_of_them_inside():
    x1 = np.array([-9.5, -8.5, -3.9, 0.1, 1.9, 9.9])
    means = bins.by_bins(np.append(x1, np.arange(-9, 10, 2)), np.append([1, 3, 5, 7, 9, 11], np.zeros(10)))
    np.testing.assert_allclose(means, [4 / 3, 0, 0, 2.5, 0, 16 / 3, 0, 0, 0, 5.5])
    assert INNER.tolist() == [False] * 3 + [True] * 4 + [False] * 3


def test_the_factor_is_inner_over_outer():
    assert factor([1, 1, 1, 3, 3, 3, 3, 1, 1, 1]) == pytest.approx(3)
    assert verdict([2.9, 3.0, 3.1])
    assert not verdict([0.5, 3.0, 1.1])
    assert not verdict([1.05, 1.051, 1.049])  # sure, and next to nothing


def test_gpec_peaks_inside_even_at_this_size(run):
    assert np.mean(factors_of(run, "GPEC, 0.5 and 0.5")) > 1.5
    assert np.mean(factors_of(run, "real changes")) > 2


def test_the_report_says_the_opposite_of_other_numbers(run):
    assert "peak is there" in "\n".join(bins.report(run))
    assert bins.verdicts(run)[1].verdict == "holds"
    for values in run.values.values():
        values["GPEC, 0.5 and 0.5"] = [1.0] * 10
        values["BayesLIME"] = [1, 1, 1, 2, 2, 2, 2, 1, 1, 1]
    text = "\n".join(bins.report(run))
    assert "peak is not there" in text
    assert "Other methods have a peak, too: BayesLIME." in text
    assert "do not agree" in text
    assert bins.verdicts(run)[1].verdict == "fails"
    for values in run.values.values():
        values["GPEC, 1 and 0.1"] = [1.0] * 10
    assert bins.verdicts(run)[0].verdict == "fails"
