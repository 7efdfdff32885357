"""An explainer whose attributions are summed over groups of features."""

from __future__ import annotations

from typing import Any

from gpec.data import Groups
from gpec.explainers.attribution import Attribution
from gpec.explainers.base import Explainer
from gpec.models import Model
from gpec.typing import FloatArray

__all__ = ["GroupedExplainer", "grouped", "with_groups"]


class GroupedExplainer(Explainer):
    """Another explainer, its attributions added within each group.

    Variances add, too: the explainer's errors of different features count as independent.
    """

    def __init__(self, explainer: Explainer, groups: Groups) -> None:
        self.explainer = explainer
        self.groups = groups

    def __getattr__(self, name: str) -> Any:
        if name in ("model_", "background_"):
            return getattr(self.explainer, name)
        raise AttributeError(name)

    @property
    def stochastic(self) -> bool | None:  # type: ignore[override]
        return self.explainer.stochastic

    @property
    def unit(self) -> str:  # type: ignore[override]
        return self.explainer.unit

    @property
    def learns(self) -> bool:  # type: ignore[override]
        return self.explainer.learns

    def check(self) -> None:
        self.explainer.check()

    def bind(self, model: Model, background: FloatArray) -> None:
        self.explainer.bind(model, background)

    def learn(self, rows: FloatArray, seed: int) -> None:
        self.explainer.learn(rows, seed)

    def fitted_state(self) -> dict[str, Any]:
        return self.explainer.fitted_state()

    def restore(self, state: dict[str, Any]) -> None:
        self.explainer.restore(state)

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        return self.explainer._explain(Z, seeds)

    def explain(self, Z: FloatArray, **how: Any) -> Attribution:
        return grouped(self.explainer.explain(Z, **how), self.groups)


def with_groups(explainer: Explainer | None, groups: Groups) -> Explainer | None:
    """The explainer, its attributions added within groups where there are any."""
    return explainer if explainer is None or groups.single else GroupedExplainer(explainer, groups)


def grouped(answer: Attribution, groups: Groups) -> Attribution:
    """Attributions added within groups."""
    variance = None if answer.variance is None else groups.add(answer.variance)
    return Attribution(groups.add(answer.values), variance, answer.base_values)
