"""Synthetic data sets of two features, with a decision boundary in closed form."""

from gpec.datasets.base import Dataset
from gpec.datasets.synthetic import CurveModel, absolute_boundary, cosine_boundary, linear_boundary

__all__ = ["CurveModel", "Dataset", "absolute_boundary", "cosine_boundary", "linear_boundary"]
