"""Run where only the core is installed: whatever needs more must say which pip command brings it."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

import gpec
from gpec.errors import MissingExtraError

X, y = load_iris(return_X_y=True, as_frame=True)
MODEL = LogisticRegression(max_iter=1000).fit(X, y == 2)
FOLDER = Path(tempfile.mkdtemp())


def fitted(explainer: str = "kernelshap") -> gpec.GPEC:
    small = {"n_boundary": 100, "n_explained": 20, "background": 10, "random_state": 0, "progress": False}
    return gpec.GPEC(MODEL, explainer, **small).fit(X)


def of_file(name: str) -> Callable[[], object]:
    (FOLDER / name).write_bytes(b"{}")
    return lambda: gpec.models.load_model(FOLDER / name)


def table(name: str) -> Callable[[], object]:
    (FOLDER / name).write_bytes(b"")
    return lambda: gpec.data.read_table(FOLDER / name)


def app() -> object:
    from gpec.app import make_app

    return make_app()


NEEDS = {
    'pip install "gpec[app]"': [lambda: fitted().explain(X[:3]).to_html(FOLDER / "report.html"), app],
    'pip install "gpec[files]"': [of_file("m.onnx"), of_file("m.skops"), table("t.parquet"), table("t.feather")],
    'pip install "gpec[dask]"': [lambda: gpec.distributed.explain_parquet(fitted(), FOLDER, FOLDER / "out")],
    'pip install "gpec[torch]"': [lambda: fitted("cxplain"), lambda: fitted("captum:Saliency")],
    'pip install "gpec[data]"': [lambda: gpec.images.superpixels(np.eye(8)), of_file("m.ubj")],
    "pip install lightgbm": [of_file("m.txt")],
    "pip install catboost": [of_file("m.cbm")],
}


def main() -> int:
    """How many things failed to name their command."""
    failed = 0
    for command, things in NEEDS.items():
        for thing in things:
            try:
                thing()
            except MissingExtraError as error:
                told = command in str(error)
                print(f"{'ok   ' if told else 'WRONG'} {error}")
                failed += not told
            else:
                print(f"WRONG nothing missing for {command}: is more than the core installed?")
                failed += 1
    e = fitted().explain(X[:3])
    for name, done in {"_repr_html_": e._repr_html_(), "plot": e[0].plot(), "print": repr(e)}.items():
        print(f"ok    {name} needs the core only" if done is not None else f"WRONG {name}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
