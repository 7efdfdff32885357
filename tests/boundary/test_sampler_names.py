"""What may be given as the boundary: names, samplers, samples and points."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from boundary_helpers import assert_same_bits, draw, fitted_boundary, gauss, plane

from extras import torch
from gpec.boundary import AdversarialSampler, BisectionSampler, BoundarySample
from gpec.data import Schema
from gpec.errors import InputError, ParameterTypeError

MIXED = pd.DataFrame({"x": np.arange(12.0), "kind": list("abc") * 4})


def by_kind(rows):
    return (rows["x"] > 5).to_numpy() * 1.0


def given(boundary):
    return fitted_boundary(boundary, plane, gauss())


@pytest.mark.parametrize("name", ["auto", "bisection", BisectionSampler()])
def test_bisection(name):
    found = given(name)
    assert_same_bits(found, replace(draw(plane, gauss(), 20), n_model_rows=found.n_model_rows))


def test_attacks():
    module = torch.nn.Linear(3, 1)
    assert fitted_boundary("adversarial", module, gauss()).attacks.radii == AdversarialSampler().radii
    assert fitted_boundary(AdversarialSampler(radii=[0.3]), module, gauss()).attacks.radii == (0.3,)


def test_an_unknown_name_lists_the_names():
    names = "'auto', 'bisection', 'adversarial', 'levels'"
    with pytest.raises(InputError, match=rf"^boundary='dbps' is not one of {names}\.$"):
        given("dbps")


def test_samples_are_themselves():
    sample = draw(plane, gauss(), 20)
    assert given(sample) is sample


@pytest.mark.parametrize("kind", [np.asarray, np.ndarray.tolist, pd.DataFrame], ids=["array", "list", "frame"])
def test_points(kind):
    points = gauss(12)
    assert_same_bits(given(kind(points)), BoundarySample.from_points(points))


def test_points_with_categories():
    Z = Schema.learn(MIXED)[1]
    for points in (MIXED, Z):
        np.testing.assert_array_equal(fitted_boundary(points, by_kind, MIXED).points, Z)
    with pytest.raises(
        InputError, match=r"boundary has 0\.5 in the categorical column 'kind'; expected its codes 0 to 2"
    ):
        fitted_boundary(Z + np.array([0.0, 0.5]), by_kind, MIXED)
    with pytest.raises(InputError, match=r"boundary has the category 'd' in row 0, column 'kind'"):
        fitted_boundary(MIXED.assign(kind="d"), by_kind, MIXED)


@pytest.mark.parametrize(
    ("boundary", "error", "message"),
    [
        (3, ParameterTypeError, "boundary=3 must be 'auto', a sampler of gpec.boundary, a BoundarySample or an array"),
        (None, ParameterTypeError, "boundary=None must be"),
        (np.zeros((12, 2)), InputError, "boundary has 2 features, but X has 3"),
        (np.zeros((9, 3)), InputError, "boundary has 9 points, but at least 10 are needed"),
        (np.zeros(3), InputError, "boundary must have 2 dimensions"),
        (np.full((10, 3), 1e300), InputError, "boundary row 0 is too far"),
    ],
)
def test_what_is_refused(boundary, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        given(boundary)
