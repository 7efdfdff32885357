"""The paper's data sets and a few everyday tables, one call each."""

from gpec.datasets.base import Dataset
from gpec.datasets.catalogue import available
from gpec.datasets.everyday import california_housing, titanic
from gpec.datasets.images import cifar10, fashion_mnist, mnist
from gpec.datasets.nhanes import nhanes_diabetes
from gpec.datasets.synthetic import CurveModel, absolute_boundary, cosine_boundary, linear_boundary
from gpec.datasets.tables import census, german_credit, online_shoppers, pima

__all__ = [
    "CurveModel",
    "Dataset",
    "absolute_boundary",
    "available",
    "california_housing",
    "census",
    "cifar10",
    "cosine_boundary",
    "fashion_mnist",
    "german_credit",
    "linear_boundary",
    "mnist",
    "nhanes_diabetes",
    "online_shoppers",
    "pima",
    "titanic",
]
