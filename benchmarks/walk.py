"""How far a row walks through the code: ``python -m benchmarks.walk``.

Counts the functions and modules of the package that ``fit`` and ``explain`` enter, and how often they come back to an
orchestrating module that they had left. Orchestrating modules lie at the top level or in ``pipeline/``. Calls that
follow each other within one module count once.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import gpec

ROOT = Path(gpec.__file__).parent


def walk(work: Callable[[], Any]) -> dict[str, int]:
    """What a call enters, in the main thread."""
    calls: list[tuple[str, str]] = []

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(ROOT)) and not code.co_name.startswith("<"):
            calls.append((str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    steps: list[str] = []
    for module, _ in calls:
        if ("/" not in module or module.startswith("pipeline/")) and steps[-1:] != [module]:
            steps.append(module)
    return {
        "functions": len(set(calls)),
        "modules": len({module for module, _ in calls}),
        "returns": len(steps) - len(set(steps)),
    }


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X.iloc[:, :6]
    model = RandomForestClassifier(20, random_state=0).fit(X, y)
    g = gpec.GPEC(model, n_explained=60, n_boundary=300, random_state=0, progress=False)
    print("fit", walk(lambda: g.fit(X)))
    print("explain", walk(lambda: g.explain(X[:5])))
    print("explain, posterior", walk(lambda: g.explain(X[:5], attribution="posterior")))


if __name__ == "__main__":
    main()
