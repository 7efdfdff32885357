"""Boundaries in closed form, for the illustrations: two patients' models, and curves with their graphs."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from gpec import datasets
from gpec.datasets import CurveModel
from gpec.geometry import GeodesicGraph

__all__ = [
    "BOUNDARIES",
    "CORNER",
    "COSINE",
    "LEVEL",
    "LINE",
    "MODELS",
    "NAMES",
    "PATIENTS",
    "RADIUS",
    "RHOS",
    "boundary_graph",
    "boundary_points",
]

LEVEL = 0.9  # of similarity inside a ball
NEIGHBORS = 3  # of the graph


class Wavy(CurveModel):
    """The line ``x2 = 1.5 + x1 / 2`` with waves of a given height."""

    def __init__(self, height: float) -> None:
        super().__init__(sharpness=4.0)
        self.height = height

    def curve(self, x1: Any) -> np.ndarray:
        return 1.5 + 0.5 * np.asarray(x1, dtype=float) + self.height * np.sin(5 * np.asarray(x1, dtype=float))

    def slope(self, x1: Any) -> np.ndarray:
        return 0.5 + 5 * self.height * np.cos(5 * np.asarray(x1, dtype=float))


MODELS = {"complex boundary": Wavy(0.35), "smoothed boundary": Wavy(0.0)}
NAMES = ("cholesterol", "sodium")
PATIENTS = {"A": (1.38, 2.75), "B": (1.60, 2.85)}
CORNER, LINE = "x2 = abs(x1)", "x2 = x1"
# Boundaries of Fig. 9, where their points lie, and two rows: one near a complex piece, one near a plain piece.
BOUNDARIES: dict[str, tuple[Any, tuple[float, float], tuple[float, float], tuple[float, float]]] = {
    "x2 = 2 cos(10 / x1)": (datasets.cosine_boundary, (0.6, 12.0), (1.2, 0.0), (8.0, 0.6)),
    CORNER: (datasets.absolute_boundary, (-10.0, 10.0), (0.0, 0.0), (5.0, 5.0)),
    LINE: (datasets.linear_boundary, (-10.0, 10.0), (0.0, 0.0), (5.0, 5.0)),
}
COSINE = next(iter(BOUNDARIES))
RHOS = (0.1, 1.0, 5.0)
RADIUS = 4.0  # of the disc in which balls are measured


def boundary_points(name: str, n: int) -> np.ndarray:
    """Points of a boundary at equal distances along it."""
    make, (low, high), *_ = BOUNDARIES[name]
    fine = make(2).model.boundary(np.linspace(low, high, 200_001))
    along = np.append(0.0, np.linalg.norm(np.diff(fine, axis=0), axis=1).cumsum())
    return make(2).model.boundary(np.interp(np.linspace(0, along[-1], n), along, fine[:, 0]))


@cache
def boundary_graph(name: str, n: int) -> GeodesicGraph:
    return GeodesicGraph.build(boundary_points(name, n), n_neighbors=NEIGHBORS)
