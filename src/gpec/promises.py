"""What an interval says: rules from values and variances to bounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy.stats import norm

from gpec.errors import CorruptFileError, InputError
from gpec.typing import FloatArray

__all__ = ["IntervalRule", "Latent"]


class IntervalRule(ABC):
    """How far the bounds of an interval lie from its value. An :class:`~gpec.Explanation` holds one.

    A rule that keeps arrays with the axes of the explanation overrides :meth:`select`, :meth:`state` and
    :meth:`restore`; :class:`Latent` needs none.
    """

    promise: ClassVar[str]
    _kinds: ClassVar[dict[str, type[IntervalRule]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "promise" in vars(cls):  # one that inherits it must not take the place of the rule that has it
            IntervalRule._kinds[cls.promise] = cls

    @abstractmethod
    def bounds(self, values: FloatArray, std: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bound of each value at a level."""

    def select(self, cut: tuple[Any, ...]) -> IntervalRule:
        """The rule for a part of the explanation."""
        return self

    def state(self) -> dict[str, Any]:
        """All there is to know, for files."""
        if "promise" not in vars(type(self)):
            raise InputError(f"{type(self).__name__} has no promise of its own by which a file could name it.")
        return {"promise": self.promise}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> IntervalRule:
        """The rule of this class that gave ``state``."""
        return cls()

    @staticmethod
    def from_state(state: dict[str, Any]) -> IntervalRule:
        """The rule that gave ``state``."""
        if state["promise"] not in IntervalRule._kinds:
            raise CorruptFileError(f"The file holds intervals of the unknown kind {state['promise']!r}.")
        return IntervalRule._kinds[state["promise"]].restore(state)


class Latent(IntervalRule):
    """The paper's: normal quantiles of the latent explanation's posterior. It promises no coverage.

    ``value +- z std`` with ``z`` the normal quantile of the level.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.promises import Latent
    >>> lower, upper = Latent().bounds(np.array([1.0]), np.array([0.5]), 0.95)
    >>> lower.round(2), upper.round(2)
    (array([0.02]), array([1.98]))
    """

    promise = "latent"

    def bounds(self, values: FloatArray, std: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        half = norm.isf((1 - level) / 2) * std  # of the tail: 0.5 + level / 2 may round to 1
        return np.asarray(values - half), np.asarray(values + half)
