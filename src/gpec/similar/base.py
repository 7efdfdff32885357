"""Base classes of similar rows, and functions that several kinds use."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from gpec.data import Schema
from gpec.runtime.state import Tagged
from gpec.typing import FloatArray


class SimilaritySampler(Tagged, ABC, tag="kind"):
    """Gives the similar rows of any row; made by :meth:`Similar.learn` and immutable.

    A subclass is a dataclass whose fields are saved in files (see ``gpec.runtime.state``), and has a ``kind``, its name
    in files.
    """

    kind: ClassVar[str]
    in_units: ClassVar[bool] = False  # whether the phrase says how far, in the units of the data
    random: bool = False  # whether the similar rows of a row are independent draws; else they are all there are

    @abstractmethod
    def rows(self, Z: FloatArray) -> FloatArray:
        """The similar rows ``(n, K, d)`` of encoded rows ``(n, d)``, encoded too."""

    @property
    @abstractmethod
    def phrase(self) -> str:
        """A similar row in words, as they follow "Take a row and ..."."""


class Similar(BaseEstimator, ABC):
    """Base class for ``GPEC(similar=...)``: implement :meth:`check` and :meth:`learn`."""

    @abstractmethod
    def check(self, schema: Schema) -> None:
        """Raise for parameters that are invalid for these columns."""

    @abstractmethod
    def learn(self, schema: Schema, Z: FloatArray, seed: int) -> SimilaritySampler:
        """The sampler for the encoded rows ``Z`` given to ``fit``."""

    def learn_draws(self, schema: Schema, Z: FloatArray, seed: int) -> SimilaritySampler:
        """The same for ``mode="explain"``, where random similar rows must be independent draws."""
        return self.learn(schema, Z, seed)


def listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def uniform(seed: int, contents: list[bytes], count: int) -> FloatArray:
    """For each content, ``count`` numbers between 0 and 1 that depend on it and on the seed.

    They are hashes: a generator for each of many thousand pairs of rows would take ten times as long.
    """
    start = seed.to_bytes(8, "little")
    drawn = b"".join(hashlib.shake_128(start + content).digest(8 * count) for content in contents)
    bits = np.frombuffer(drawn, dtype="<u8").reshape(len(contents), count)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
