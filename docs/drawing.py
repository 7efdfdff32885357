"""The import drawing of design.md as a picture: the site has no script that draws Mermaid."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch

BLOCK = re.compile(r"```mermaid\nflowchart LR\n(.*?)```", re.DOTALL)


def edges_of(text: str) -> list[tuple[str, str]]:
    """Arrows ``a --> b & c`` as pairs."""
    lines = re.findall(r"^\s*(\S+) --> (.+)$", text, re.MULTILINE)
    return [(source, target) for source, targets in lines for target in targets.split(" & ")]


def columns_of(edges: list[tuple[str, str]]) -> list[list[str]]:
    """Names by the longest way to them, each near the mean height of those that point to it."""
    depth = dict.fromkeys((name for edge in edges for name in edge), 0)
    for _ in depth:
        for source, target in edges:
            depth[target] = max(depth[target], depth[source] + 1)
    columns: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    height: dict[str, float] = {}
    for name in sorted(depth, key=lambda name: depth[name]):
        columns[depth[name]].append(name)
    for column in columns:

        def wanted(name: str) -> float:
            above = [height[source] for source, target in edges if target == name and source in height]
            return sum(above) / len(above) if above else 0.0

        column.sort(key=wanted)
        height.update({name: i - (len(column) - 1) / 2 for i, name in enumerate(column)})
    return columns


def draw(text: str, path: Path) -> None:
    """Save the drawing as SVG."""
    edges = edges_of(text)
    columns = columns_of(edges)
    place = {
        name: (2.1 * x, -1.0 * (y - (len(column) - 1) / 2) + 0.25 * (-1) ** x)
        for x, column in enumerate(columns)
        for y, name in enumerate(column)
    }
    figure, ax = plt.subplots(figsize=(1.15 * len(columns), 3.6))
    for source, target in edges:
        ax.add_patch(
            FancyArrowPatch(
                place[source],
                place[target],
                arrowstyle="-|>",
                mutation_scale=7,
                shrinkA=20,
                shrinkB=22,
                color="#9aa3ad",
                linewidth=0.7,
                connectionstyle="arc3,rad=0.08",
            )
        )
    for name, (x, y) in place.items():
        box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": "#2f6f8f", "linewidth": 0.9}
        ax.text(x, y, name, ha="center", va="center", fontsize=7.5, bbox=box)
    xs, ys = zip(*place.values(), strict=True)
    ax.set(xlim=(min(xs) - 1.2, max(xs) + 1.2), ylim=(min(ys) - 0.7, max(ys) + 0.7))
    ax.axis("off")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else {})
    plt.close(figure)


def in_place_of_code(app: object, docname: str, source: list[str]) -> None:
    """For Sphinx's event source-read: show the picture where design.md has Mermaid code."""
    found = BLOCK.search(source[0]) if docname == "design" else None
    if found:
        name = "_pictures/imports.svg"
        draw(found[1], Path(__file__).parent / name)
        source[0] = source[0].replace(found[0], f"![Which room imports which]({name})")
