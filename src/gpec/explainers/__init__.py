"""Attributions and their own noise."""

from gpec.explainers.adapters import CallableExplainer, KernelShap, ShapAdapter, TreeShap, make_explainer
from gpec.explainers.base import Attribution, Explainer

__all__ = [
    "Attribution",
    "CallableExplainer",
    "Explainer",
    "KernelShap",
    "ShapAdapter",
    "TreeShap",
    "make_explainer",
]
