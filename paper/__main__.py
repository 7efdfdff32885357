"""Regenerate the paper's tables and figures: ``python -m paper [NAME ...] [--size small|paper] [--out FOLDER]``.

Without names all are run, two at a time; a run that was interrupted goes on where it stopped. ``report`` computes
nothing and writes RESULTS.md and TABLES.md anew from what was found. Results, figures and report go to
``build/reproduction``; ``--size paper --out paper`` replaces those that the repository holds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from pathlib import Path

import matplotlib as mpl

from paper._report import appendix, results
from paper._runs import OUT, Run

# Scripts in the order of the report.
PARTS = (
    "illustrations",  # Fig. 1, 3, 9
    "heatmaps",  # Fig. 4, 14
    "bins",  # Fig. 5
    "regularisation",  # Table 1, 5, 6, tables, and what the paper lacks
    "image_regularisation",  # the same, images
    "ablation",  # Fig. 6, 13
    "times",  # Table 2, 3, 4
    "diabetes",  # Fig. 7
    "images",  # Fig. 8
    "sensitivity",  # Fig. 10, 11, 12
    "boundary_points",  # Conclusion
)

_LONGEST = ("regularisation", "images", "image_regularisation", "times", "heatmaps", "boundary_points")


def run_part(name: str, size: str, seeds: int | None = None, folder: Path = OUT) -> Run:
    """Compute, draw and return what one script finds."""
    script = import_module(f"paper.{name}")
    run = Run(name, size, seeds, script.settings(size, seeds), folder)
    script.run(run)
    script.draw(run)
    run.finish()
    return run


def timed_part(name: str, size: str, seeds: int | None, folder: Path) -> float:
    """The same, in a process of its own; gives the seconds it took."""
    mpl.use("Agg")
    started = time.perf_counter()
    run_part(name, size, seeds, folder)
    return time.perf_counter() - started


def run_all(names: list[str], size: str, seeds: int | None, jobs: int, folder: Path) -> None:
    """Every script in a process of its own, so many at a time, the longest first; one at a time they run here."""
    if jobs == 1:
        for name in names:
            print(f"== {name}: {timed_part(name, size, seeds, folder):.0f} s", flush=True)
        return
    order = sorted(names, key=lambda name: _LONGEST.index(name) if name in _LONGEST else len(_LONGEST))
    spawn = multiprocessing.get_context("spawn")
    work = import_module("paper.__main__").timed_part  # by the name under which the other processes find it
    with ProcessPoolExecutor(jobs, mp_context=spawn, max_tasks_per_child=1) as pool:
        running = {pool.submit(work, name, size, seeds, folder): name for name in order}
        for done in as_completed(running):
            print(f"== {running[done]}: {done.result():.0f} s", flush=True)


def write_report(folder: Path) -> None:
    """RESULTS.md and TABLES.md, from the largest size at which each script was run."""
    parts = []
    for name in PARTS:
        found = (Run.found(name, size, folder) for size in ("paper", "small"))
        run = next((run for run in found if run is not None), None)
        if run is not None:
            parts.append((import_module(f"paper.{name}"), run))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "RESULTS.md").write_text(results(parts))
    (folder / "TABLES.md").write_text(appendix(parts))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m paper", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PARTS)}, or report")
    parser.add_argument("--size", choices=("small", "paper"), default="small")
    parser.add_argument("--seeds", type=int, help="independent repetitions, instead of each script's own number")
    parser.add_argument("--jobs", type=int, default=2, help="scripts that run at a time")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of results, figures and report (%(default)s)")
    asked = parser.parse_args()
    unknown = set(asked.names) - {*PARTS, "report"}
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose among {', '.join(PARTS)}, or report")
    names = [name for name in asked.names or PARTS if name != "report"]
    run_all(names, asked.size, asked.seeds, asked.jobs, asked.out)
    write_report(asked.out)
    print(f"The report: {asked.out / 'RESULTS.md'}")


if __name__ == "__main__":
    main()
