"""What is explained: probabilities, or their log-odds."""

from __future__ import annotations

from typing import Literal

from gpec._validation import check_choice
from gpec.explainers.base import Explainer
from gpec.typing import FloatArray

__all__ = ["Link", "LinkedExplainer"]

Link = Literal["identity", "logit"]


class LinkedExplainer(Explainer):
    """Base of the explainers of probabilities, which can explain log-odds instead.

    Attributes
    ----------
    link : {"identity", "logit"}
        Explain probabilities, or log-odds.
    measures : str
        The unit, with ``{}`` for what is explained.
    """

    link: Link = "identity"
    measures: str = "{}"

    def check(self) -> None:
        super().check()
        check_choice("link", self.link, ("identity", "logit"))

    @property
    def unit(self) -> str:  # type: ignore[override]  # not to be set: it follows from the link
        """What the attributions measure."""
        return self.measures.format("log-odds" if self.link == "logit" else "probability")

    def outputs_of(self, Z: FloatArray) -> FloatArray:
        """The model's probabilities for encoded rows, or their log-odds, cut at +-36; ``(n, c)``."""
        return self.model_.log_odds(Z) if self.link == "logit" else self.model_.probabilities(Z)
