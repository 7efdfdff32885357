"""Explainers: attributions of rows, and the variance of the attributions."""

from gpec.explainers._registry import make_explainer
from gpec.explainers.adapters import CallableExplainer, Precomputed, ShapAdapter, ShapKernel
from gpec.explainers.attribution import Attribution
from gpec.explainers.base import Explainer
from gpec.explainers.captum import CaptumAdapter
from gpec.explainers.cxplain import CXPlain
from gpec.explainers.kernelshap import KernelShap
from gpec.explainers.lime import BayesLime, BayesShap, Lime
from gpec.explainers.shapley import ExactShapley, ShapleySampling
from gpec.explainers.tree import TreeShap

__all__ = [
    "Attribution",
    "BayesLime",
    "BayesShap",
    "CXPlain",
    "CallableExplainer",
    "CaptumAdapter",
    "ExactShapley",
    "Explainer",
    "KernelShap",
    "Lime",
    "Precomputed",
    "ShapAdapter",
    "ShapKernel",
    "ShapleySampling",
    "TreeShap",
    "make_explainer",
]
