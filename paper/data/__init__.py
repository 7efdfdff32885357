"""The paper's data sets and a few everyday tables, one call each; ``python -m paper.data`` lists them."""

from paper.data.base import Dataset
from paper.data.catalogue import available
from paper.data.everyday import california_housing, titanic
from paper.data.images import cifar10, fashion_mnist, mnist
from paper.data.nhanes import nhanes_diabetes
from paper.data.tables import census, german_credit, online_shoppers, pima

__all__ = [
    "Dataset",
    "available",
    "california_housing",
    "census",
    "cifar10",
    "fashion_mnist",
    "german_credit",
    "mnist",
    "nhanes_diabetes",
    "online_shoppers",
    "pima",
    "titanic",
]
