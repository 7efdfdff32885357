"""Fig. 8 at a toy size, on scikit-learn's digits, and what its verdict says of made-up numbers."""

import copy

import numpy as np
import pytest
import torch
from paper.__main__ import run_part
from paper._image_intervals import OneAgainstRest, _by_superpixels, _half_and_half, best_known, facts_of
from paper._images_report import compare, ratios

from gpec.images import superpixels
from paper import images

KEY = "digits, draw 0"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_part("images", "toy", folder=tmp_path_factory.mktemp("paper"))


@pytest.fixture
def run(whole):
    """A copy, whose numbers a test may change."""
    changed = copy.copy(whole)
    changed.values = copy.deepcopy(whole.values)
    return changed


def text(run):
    return "\n".join(images.report(run))


def test_pictures_and_report_are_made(whole):
    made = {path.name for path in (whole.folder / "figures" / "toy").iterdir()}
    assert made == {"fig08_images.png", "fig08_images_published.png"}
    assert "wider where the image is blank on" in text(whole)
    assert "nan" not in text(whole) + "\n".join(images.tables(whole))
    assert len(text(whole).split()) <= 330  # of which the table is a part


def test_the_class_keeps_its_probability():
    logits = torch.tensor([[0.3, -1.0, 2.0, 0.5], [50.0, -50.0, 0.0, 49.0]])
    for label in range(4):
        two = torch.softmax(OneAgainstRest(torch.nn.Identity(), label)(logits), dim=1)
        torch.testing.assert_close(two[:, 1], torch.softmax(logits, dim=1)[:, label])


def test_with_equal_noise_all_superpixels_have_one_width(whole):
    half = np.array(whole.values[KEY]["panel"]["equal noise"]["half"])
    np.testing.assert_allclose(half, half[0, 0], rtol=1e-4)
    assert compare(ratios(whole, "digits", "equal noise", "width")) == "equal"


def test_facts_are_those_of_object_and_blank_superpixels():
    image = np.zeros((8, 8))
    image[:, 4:] = 1.0  # four superpixels, of which the left two are blank
    values, half = np.full((8, 8), 0.1), np.full((8, 8), 0.4)
    values[:4, 4:] = -0.7
    half[:, 4:] = 0.2
    facts = facts_of(image, values.ravel(), half.ravel(), 4)
    assert facts["superpixels"] == 4
    assert facts["object"] == pytest.approx({"width": 0.4, "size": 0.4, "firm": 0.5})
    assert facts["blank"] == pytest.approx({"width": 0.8, "size": 0.1, "firm": 0.0})
    assert "blank" not in facts_of(np.stack([image] * 3), *[np.tile(x.ravel(), 3) for x in (values, half)], 4)


def test_a_superpixel_has_the_median_width_of_its_pixels():
    image = np.zeros((8, 8))
    image[:, 4:] = 1.0
    half = np.arange(64.0)
    found = _by_superpixels(image[None], half[None], 4)[0]
    pieces = superpixels(image, 4).ravel()
    assert set(pieces) == {0, 1, 2, 3}
    for piece in range(4):
        assert (found[pieces == piece] == np.median(half[pieces == piece])).all()


def test_half_of_the_explained_rows_are_of_the_class():
    rows = np.arange(10, 20)
    assert _half_and_half(rows, rows >= 17, 5).tolist() == [17, 18, 10, 11, 12]


def test_the_class_known_best_has_most_sure_and_right_answers():
    answers = np.array([[0.9, 0.1, 0.0], [0.9, 0.1, 0.0], [0.2, 0.2, 0.6], [0.4, 0.3, 0.3], [0.4, 0.3, 0.3]])
    assert best_known(answers, np.array([1, 1, 2, 0, 0])) == 2


@pytest.mark.parametrize(
    ("ratio", "word"),
    [([1, 1, 1], "equal"), ([1.2, 1.3, 1.25], "wider"), ([0.5, 0.6], "narrower"), ([0.5, 1.0, 1.9], "not different")],
)
def test_a_difference_counts_beyond_two_standard_errors(ratio, word):
    assert compare(ratio) == word


def test_the_report_follows_the_numbers(run):
    blocks = run.values[KEY]["facts"]
    for i, fact in enumerate(blocks["BayesLIME's noise"]):
        fact["object"] = {"width": 1.0, "size": 1.0, "firm": 0.25}
        fact["blank"] = {"width": 2.0 + 0.01 * i, "size": 0.9, "firm": 0.0}
    said = text(run)
    assert "wider where the image is blank on digits" in said
    assert "| as published, BayesLIME's noise | digits | 2.0" in said
    assert "| 25% | 0% |" in said
    assert [one.verdict for one in images.verdicts(run)] == ["holds", "holds"]
    assert "more than half of a typical published value is chance" in said
    for fact in blocks["BayesLIME's noise"]:
        fact["blank"] = {"width": 0.5, "size": 0.01, "firm": 0.25}
    said = text(run)
    assert "wider where the image is blank on none of digits" in said
    assert "chance" not in said
    assert [one.verdict for one in images.verdicts(run)] == ["fails", "fails"]
