"""The explained function: probabilities, their log-odds, or the values of a regressor."""

from __future__ import annotations

from typing import Literal

from gpec._validation import check_choice
from gpec.data._output_kind import Classification
from gpec.errors import InputError
from gpec.explainers.base import Explainer
from gpec.models import Model
from gpec.typing import FloatArray

Link = Literal["identity", "logit"]


class LinkedExplainer(Explainer):
    """Base of explainers that can explain log-odds instead of probabilities.

    Attributes
    ----------
    link : {"identity", "logit"}
        Explain answers (probabilities, or the values of a regressor), or log-odds.
    measures : str
        The unit of the attributions, with ``{}`` for the explained function.
    """

    link: Link = "identity"
    measures: str = "{}"

    def check(self) -> None:
        super().check()
        check_choice("link", self.link, ("identity", "logit"))

    @property
    def unit(self) -> str:  # type: ignore[override]  # read-only: it follows from the link
        """The unit of the attributions."""
        return self.measures.format(explained_by(self, self.link))

    def bind(self, model: Model, background: FloatArray) -> None:
        if self.link not in model.kind.links:
            raise InputError("link='logit' explains the log-odds of a classifier; for a regressor leave out the link.")
        super().bind(model, background)

    def outputs_of(self, Z: FloatArray) -> FloatArray:
        """The model's answers to encoded rows, or their log-odds, clipped at +-36; ``(n, c)``."""
        return self.model_.log_odds(Z) if self.link == "logit" else self.model_.answers(Z)


def explained_by(explainer: Explainer, link: str) -> str:
    """The quantity that an explainer with this link explains; that of a classifier before it has a model."""
    kind = explainer.model_.kind if hasattr(explainer, "model_") else Classification()
    return kind.explained(link)
