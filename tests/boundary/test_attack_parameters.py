"""Parameters of attacks that can never be used."""

import pytest

from gpec.boundary import AdversarialSampler
from gpec.errors import InputError


@pytest.mark.parametrize("radii", [[-0.1], [0.0], [0.1, -0.1], [], 0.1, [[0.1]]])
def test_radii_are_a_list_of_numbers_greater_than_0(radii):
    with pytest.raises(InputError, match="must be a list of numbers greater than 0"):
        AdversarialSampler(radii=radii).check()


def test_one_radius_will_do():
    AdversarialSampler(radii=[0.1]).check()
