"""Results of single cases, each in a file of its own, so that a run that was interrupted goes on where it stopped."""

import json
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks._trust.case import quietly


def once(path: Path, function: Callable[..., Any], *arguments: Any) -> None:
    """Compute what the file is to hold, unless it is there."""
    if path.exists():
        return
    started = time.perf_counter()
    try:
        result = quietly(function, *arguments)
    except Exception:  # the others go on; this one is tried again next time
        traceback.print_exc()
        print(f"{path.stem} failed", flush=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(result, indent=1) + "\n")
    unfinished.rename(path)
    print(f"{path.stem}: {time.perf_counter() - started:.0f} s", flush=True)


def folder(part: str) -> Path:
    return Path(os.environ.get("GPEC_BENCH_CACHE", Path(__file__).parents[1] / ".cache")) / part
