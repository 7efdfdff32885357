"""Dijkstra's algorithm without Python's lock, for many sources on several threads.

SciPy's holds the lock, so that a second thread would wait. Both add up edges from the source on, and rounding keeps
order: so the least sums, and hence all bits, are the same. Compiling takes two seconds the first time, and a second in
each process afterwards: few sources are not worth it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from gpec.typing import FloatArray, IntArray

__all__ = ["searcher"]

# Finds the distances from sources and writes them into an array.
Search = Callable[[IntArray, FloatArray], None]

_WORTH_COMPILING = 5_000_000  # distances: SciPy takes a second for them


def searcher(graph: csr_array, n_sources: int) -> Search:
    """A function that writes the lengths of the shortest paths from sources to all points; inf where there is none."""
    if n_sources * graph.shape[0] < _WORTH_COMPILING:
        return lambda sources, out: np.copyto(out, dijkstra(graph, directed=True, indices=sources))
    compiled = _compiled()
    # Copies, because arrays that cannot be written to are of another type.
    length = np.array(graph.data, dtype=np.float64)
    stop, edges = np.array(graph.indices, dtype=np.int32), np.array(graph.indptr, dtype=np.int32)
    return lambda sources, out: compiled(length, stop, edges, sources, out)


@cache
def _compiled() -> Callable[..., None]:
    import numba

    signature = "void(f8[::1], i4[::1], i4[::1], i8[::1], f8[:, ::1])"
    compiled: Callable[..., None]
    try:
        compiled = numba.njit(signature, nogil=True, cache=True)(search)
    except RuntimeError:  # there is no folder to keep the compiled code in
        compiled = numba.njit(signature, nogil=True)(search)
    return compiled


def search(length: FloatArray, stop: IntArray, edges: IntArray, sources: IntArray, out: FloatArray) -> None:
    """Distances ``out (n, J)`` from the sources; the edges of point ``u`` are ``edges[u]`` to ``edges[u + 1]``.

    Points that are reached wait in a heap in which each has four children; ``place`` tells where. Their distances stand
    beside them, so that those that are compared lie together.
    """
    J = len(edges) - 1
    heap, place, waiting = np.empty(J, np.int32), np.empty(J, np.int32), np.empty(J)
    for n in range(len(sources)):
        distance = out[n]
        distance[:] = np.inf
        place[:] = -1
        source = sources[n]
        distance[source] = 0.0
        heap[0], waiting[0], place[source], size = source, 0.0, 0, 1
        while size > 0:
            nearest, here = heap[0], waiting[0]
            size -= 1
            # The last one takes the place of the first and sinks.
            last, far = heap[size], waiting[size]
            at, child = 0, 1
            while child < size:
                best, least = child, waiting[child]
                for other in range(child + 1, min(child + 4, size)):
                    if waiting[other] < least:
                        best, least = other, waiting[other]
                if least >= far:
                    break
                heap[at], waiting[at] = heap[best], least
                place[heap[at]] = at
                at, child = best, 4 * best + 1
            heap[at], waiting[at] = last, far
            place[last] = at
            place[nearest] = -1
            for edge in range(edges[nearest], edges[nearest + 1]):
                point = stop[edge]
                way = here + length[edge]
                if way < distance[point]:
                    distance[point] = way
                    at = place[point]
                    if at < 0:
                        at = size
                        size += 1
                    while at > 0 and waiting[(at - 1) >> 2] > way:  # rises
                        above = (at - 1) >> 2
                        heap[at], waiting[at] = heap[above], waiting[above]
                        place[heap[at]] = at
                        at = above
                    heap[at], waiting[at] = point, way
                    place[point] = at
