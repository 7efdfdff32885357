"""Distances along the sampled decision boundary."""

from gpec.geometry.graph import GeodesicGraph

__all__ = ["GeodesicGraph"]
