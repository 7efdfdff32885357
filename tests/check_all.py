"""One test for many cheap cases: all of them run, and the failure names every case that did not pass."""

from collections.abc import Callable, Iterable
from typing import Any


def check_all(cases: Iterable[tuple[str, Any]], check: Callable[[Any], object]) -> None:
    """Run ``check`` on each case of ``(name, case)``; fail with the names and errors of all offenders."""
    failed, n = [], 0
    for name, case in cases:
        n += 1
        try:
            check(case)
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {error}")
    assert n > 0, "there was nothing to check"
    assert not failed, f"{len(failed)} of {n} failed:\n" + "\n".join(failed)
