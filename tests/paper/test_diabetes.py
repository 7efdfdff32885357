"""Fig. 7 at a toy size, and what its verdicts say of made-up numbers."""

import copy

import numpy as np
import pytest
from paper.__main__ import run_part
from paper._diabetes import MAIN, SHOWN
from paper._diabetes_report import differs, readings, summary, verdict, where

from made_up import PEOPLE
from paper import _diabetes, diabetes


@pytest.fixture(scope="module")
def run(small_data, tmp_path_factory):
    return run_part("diabetes", "toy", folder=tmp_path_factory.mktemp("paper"))


def test_picture_and_report_are_made(run):
    made = {path.name for path in (run.folder / "figures" / "toy").iterdir()}
    assert made == {"fig07_diabetes.png"}
    text = "\n".join([*diabetes.report(run), *diabetes.tables(run)])
    assert "fig07_diabetes.png" in text
    assert "nan" not in text
    assert 0.8 < run.values["fold 0"]["AUROC"] < 1
    assert sum(run.values["fold 0"][SHOWN]["thirds"]) == pytest.approx(1)


def test_everybody_is_a_test_patient_once(small_data):
    s = diabetes.settings("small", None)
    tests = [_diabetes.split(s, MAIN, fold)[1] for fold in range(s["folds"])]
    assert sorted(np.concatenate(tests)) == list(range(PEOPLE))
    train, test = _diabetes.split(s, MAIN, 2)
    assert not set(train) & set(test)


def test_thirds_of_the_range_are_not_tertiles():
    said = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 2.0, 2.9, 3.0, 1.5])
    np.testing.assert_array_equal(_diabetes.third(said), [0, 0, 0, 0, 0, 2, 2, 2, 1])
    np.testing.assert_array_equal(_diabetes.tertile(said), [0, 0, 0, 1, 1, 2, 2, 2, 1])


def test_means_of_tertiles_leave_out_who_was_not_checked():
    said = np.array([3.0, 1.0, 2.0, 6.0, 5.0, 4.0])
    age = np.array([30.0, 10.0, np.nan, 60.0, 50.0, 40.0])
    assert _diabetes.by_tertile(said, {"age": age}) == {"age": [10.0, 35.0, 55.0]}


def test_verdict_needs_two_standard_errors_on_the_right_side():
    assert verdict([0.5, 0.6, 0.4], 1) == "holds"
    assert verdict([-0.5, -0.6, -0.4], 1).startswith("does not hold")
    assert verdict([0.5, -0.6, 0.4], 1) == "cannot be told"
    assert differs([1.0, 1.1, 0.9], [2.0, 2.2, 1.9])
    assert not differs([1.0, 2.0, 0.9], [2.0, 1.0, 1.0])


def test_claims_follow_the_numbers(run):
    fold = {"n": 10, "size": 1.0, "uncertainty": 1.0}

    def with_two_stays(size):
        groups = {
            "sodium": {name: dict(fold) for name in ("below 135", "135 to 145")},
            "hospital_stays": {"0 or 1": dict(fold), "2": {**fold, "size": size}, "3 or 4": dict(fold)},
        }
        return {SHOWN: {"groups": groups}}

    for sign, word in ((1, "holds"), (-1, "does not hold: the opposite is true")):
        found = readings([with_two_stays(np.exp(sign * x)) for x in (0.9, 1.0, 1.1)])
        assert next(one for one in found if one.says == "two hospital stays: important").verdict == word
        held, against = (1, 0) if sign > 0 else (0, 1)
        # the size at three or four stays, over that at two, moves the other way
        assert f"{2 * held} hold, 4 cannot be told and {2 * against} are" in summary(found)


@pytest.mark.parametrize(("shift", "low", "words"), [(0.0, 0.9, ["holds", "holds"]), (-0.2, 0.1, ["fails", "fails"])])
def test_verdicts_follow_the_numbers(run, shift, low, words):
    other = copy.copy(run)
    other.values = copy.deepcopy(run.values)
    for fold in range(run.settings["folds"]):
        other.values[f"fold {fold}"]["AUROC"] = 0.92 + shift
        other.values[f"fold {fold}"][SHOWN]["thirds"] = [low, 1 - low, 0.0]
    assert [one.verdict for one in diabetes.verdicts(other)[:2]] == words
    assert ("NOT reproduced" in "\n".join(diabetes.report(other))) == (shift < 0)


def test_majority_is_told_for_each_scale():
    assert where([], ["a", "b"]) == "holds on no scale"
    assert where(["a"], ["a", "b"]) == "holds only on the scale: a"
    assert where(["a", "b"], ["a", "b"]) == "holds on every scale"
