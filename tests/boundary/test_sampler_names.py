"""What may be given as the boundary: names, samplers, samples and points."""

import re

import numpy as np
import pandas as pd
import pytest
from boundary_helpers import assert_same_bits, draw, gauss, plane

from gpec.boundary import AdversarialSampler, BisectionSampler, BoundarySample
from gpec.boundary._registry import make_sampler
from gpec.data import Schema
from gpec.errors import InputError, ParameterTypeError

SCHEMA = Schema.learn(gauss())[0]
MIXED = pd.DataFrame({"x": np.arange(12.0), "kind": list("abc") * 4})


@pytest.mark.parametrize(
    ("name", "kind"),
    [("auto", BisectionSampler), ("bisection", BisectionSampler), ("adversarial", AdversarialSampler)],
)
def test_names(name, kind):
    sampler = make_sampler(name, SCHEMA)
    assert type(sampler) is kind
    assert sampler.get_params() == kind().get_params()


def test_an_unknown_name_lists_the_names():
    names = "'auto', 'bisection', 'adversarial', 'levels'"
    with pytest.raises(InputError, match=rf"^boundary='dbps' is not one of {names}\.$"):
        make_sampler("dbps", SCHEMA)


def test_samplers_and_samples_are_themselves():
    sampler, sample = BisectionSampler(tolerance=1e-3), draw(plane, gauss(), 20)
    assert make_sampler(sampler, SCHEMA) is sampler
    assert make_sampler(sample, SCHEMA) is sample


@pytest.mark.parametrize("kind", [np.asarray, np.ndarray.tolist, pd.DataFrame], ids=["array", "list", "frame"])
def test_points(kind):
    points = gauss(12)
    assert_same_bits(make_sampler(kind(points), SCHEMA), BoundarySample.from_points(points))


def test_points_with_categories():
    schema, Z = Schema.learn(MIXED)
    for points in (MIXED, Z):
        np.testing.assert_array_equal(make_sampler(points, schema).points, Z)
    with pytest.raises(
        InputError, match=r"boundary has 0\.5 in the categorical column 'kind'; expected its codes 0 to 2"
    ):
        make_sampler(Z + np.array([0.0, 0.5]), schema)
    with pytest.raises(InputError, match=r"boundary has the category 'd' in row 0, column 'kind'"):
        make_sampler(MIXED.assign(kind="d"), schema)


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
        make_sampler(boundary, SCHEMA)
