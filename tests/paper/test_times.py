"""Table 2, 3 and 4 at a toy size, and what their verdicts say of made-up numbers."""

import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from paper.__main__ import run_part
from paper._methods import METHODS
from paper._times_numbers import PERTURBING, comparable, slower

from paper import times


@pytest.fixture(scope="module")
def run(small_data, tmp_path_factory):
    return run_part("times", "toy", folder=tmp_path_factory.mktemp("paper"))


def test_picture_and_report_are_made(run):
    made = {path.name for path in (run.folder / "figures" / "toy").iterdir()}
    assert made == {"table02_times.png"}
    text = "\n".join([*times.report(run), *times.tables(run)])
    assert "| German Credit | of it, sampling | 1,344 |" in text
    assert "Images were not timed" in text
    assert "nan" not in text
    kept = run.values["German Credit, seed 0"]
    assert kept["training"]["GPEC"] > 0.5 * kept["sampling"] > 0


def test_networks_for_images_are_timed_too():
    s = times.settings("toy", None)
    s["images"].update(attacks=[6, 3], n_perturbed=2, n_networks=2, n_learned=12)
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(40, 6, 6))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        with torch.no_grad():  # so that every class is predicted
            model[-1].bias -= model(torch.tensor(X, dtype=torch.float32)).mean(dim=0)
    case = times.image_case(s, model, X, X[:4], 0)
    found = times.time_all(case, 0)
    assert set(found["inference"]) == set(METHODS)
    assert min(found["inference"].values()) > 0


def test_seconds_are_those_of_the_processor():
    waited, _ = times.timed(lambda: time.sleep(0.2))
    worked, answer = times.timed(lambda: sum(range(10**6)))
    assert waited < 0.1
    assert 0 < worked < 1
    assert answer == 499_999_500_000


def test_slower_and_comparable_follow_the_ratios():
    assert slower(np.log([8.0, 9.0, 10.0]))
    assert not slower(np.log([0.1, 0.2, 0.1]))
    assert not slower(np.log([0.1, 9.0, 1.1]))
    assert slower(np.log([3.0]))
    assert not slower(np.log([1.5]))
    assert comparable(np.log([0.2, 0.3]))
    assert not comparable(np.log([0.02, 0.03]))


@pytest.mark.parametrize(
    ("seconds", "words", "word"), [(9.0, "in all of 2 comparisons", "holds"), (0.1, "in 0 of 2 comparisons", "fails")]
)
def test_the_verdict_follows_the_numbers(seconds, words, word):
    one = {
        "explanations": 1.0,
        "sampling": 3.0,
        "training": dict.fromkeys(METHODS, 4.0),
        "inference": {method: seconds if method in PERTURBING else 1.0 for method in METHODS},
    }
    values = {f"Census, seed {seed}": one for seed in range(2)}
    made = SimpleNamespace(settings={"seeds": {"Census": 2}}, values=values)
    made.settings |= {"n_query": 100, "n_boundary": 1_000}
    made.size = "toy"
    text = "\n".join(times.report(made))
    assert words in text
    assert "75% to 75% of GPEC's training" in text
    assert "within a factor of 10 of Naive-GP and CXPlain in all of 2" in text
    assert [one.verdict for one in times.verdicts(made)] == [word, "holds"]
    one["inference"]["CXPlain"] = 0.01
    assert times.verdicts(made)[1].verdict == "holds in part"
