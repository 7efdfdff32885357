"""Random numbers: one root seed, and a separate stream for each purpose.

Every draw in the package names its purpose, which belongs to one module. So no two purposes share a stream, and no draw
depends on earlier draws for other purposes. NumPy's global generator is never used.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from gpec.errors import InputError, ParameterTypeError


def stream(seed: int, purpose: str, *key: int) -> np.random.Generator:
    """The generator for one purpose; ``key`` distinguishes parts of a purpose that draw independently."""
    return np.random.default_rng(_sequence(seed, purpose, key))


def derived_seed(seed: int, purpose: str, *key: int) -> int:
    """A seed made from another, for one purpose."""
    return int(_sequence(seed, purpose, key).generate_state(1)[0])


def _sequence(seed: int, purpose: str, key: tuple[int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(zlib.crc32(purpose.encode()), *key))


def make_seed(random_state: Any) -> int:
    """One root seed from an int, None, a Generator or a RandomState; the global generators are never used."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        if random_state < 0:
            raise InputError(f"random_state={random_state} must not be negative.")
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**62))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    raise ParameterTypeError(f"random_state={random_state!r} must be an int, None, a numpy Generator or a RandomState.")
