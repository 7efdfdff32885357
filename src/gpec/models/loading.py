"""Loading of models from files, servers and Python modules."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import dropwhile, islice, takewhile
from pathlib import Path
from typing import Any

from gpec._validation import check_installed
from gpec.errors import CorruptFileError, GPECError, InputError
from gpec.models._onnx import OnnxModel
from gpec.models._remote import RemoteModel

_PICKLES = (".pkl", ".pickle", ".joblib")
_TORCH = (".pt", ".pt2", ".pth")
_SETTING = re.compile(rb"(\[\w+:.*\])?")  # of LightGBM, a line each
_IMPORT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_KINDS = (
    "XGBoost .json or .ubj, LightGBM .txt, CatBoost .cbm, .onnx, .skops, package.module:function, or an http:// address"
)


def load_model(
    source: str | os.PathLike[str],
    *,
    trust_pickle: bool = False,
    trust_types: Sequence[str] = (),
    model_name: str | None = None,
    output_name: str | None = None,
) -> Any:
    """Load a model for :class:`gpec.GPEC` from a file, a server or a Python module.

    ===============================  =======================================================================
    ``model.json``, ``model.ubj``    an ``xgboost.Booster``
    ``model.txt``                    a ``lightgbm.Booster``
    ``model.cbm``                    a ``catboost.CatBoostClassifier`` or ``CatBoostRegressor``
    ``model.onnx``                   a function, run by onnxruntime
    ``model.skops``                  an estimator of scikit-learn, read by skops without pickle
    ``package.module:name``          the object of this name, imported
    ``http://host/v2/models/NAME``   a function that calls a server with the Open Inference Protocol
    ``model.pkl``, ``model.joblib``  the pickled object; only with ``trust_pickle=True``
    ===============================  =======================================================================

    Parameters
    ----------
    source : str or path
        One of the above.
    trust_pickle : bool
        Allow pickles: reading one executes arbitrary code.
    trust_types : list of str
        Types in a skops file to allow, in addition to those that skops considers safe.
    model_name : str, optional
        Name of the model on the server, if the address does not end with it.
    output_name : str, optional
        Name of the output with the probabilities or values, in an ONNX file or on a server.

    Raises
    ------
    InputError
        If there is no such model, or it needs trust that was not given.
    CorruptFileError
        If the file does not have the format that its name states.
    ModelCallError
        If the server does not answer.
    """
    text = os.fspath(source)
    if text.startswith(("http://", "https://")):
        return RemoteModel(text, model_name=model_name, output=output_name)
    path = Path(text)
    if not path.is_file():
        if _IMPORT_PATH.fullmatch(text):
            return _import_object(text)
        raise InputError(f"There is no model {text}; give {_KINDS}.")
    suffix = path.suffix.lower()
    if suffix in _PICKLES:
        return _unpickled(path, trust_pickle)
    if suffix == ".onnx":
        return OnnxModel(path, output_name)
    if suffix in _TORCH:
        raise InputError(
            f"{path} is a file of torch, which may run code when it is read; save the network with torch.onnx.export "
            "and give the .onnx file, or give package.module:function, a Python function that calls the network."
        )
    if suffix == ".skops":
        return _read(path, "a file of skops", partial(_of_skops, trusted=trust_types))
    if suffix not in READERS:
        raise InputError(f"{path} is not a supported kind of model file; give {_KINDS}.")
    return _read(path, *READERS[suffix])


def _read(path: Path, what: str, reader: Callable[[Path], Any]) -> Any:
    try:
        return reader(path)
    except GPECError:
        raise
    except Exception as error:  # the libraries' errors have no common base class
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise CorruptFileError(f"{path} cannot be read as {what}: {reason}") from error


def _of_xgboost(path: Path) -> Any:
    booster = check_installed("xgboost", str(path), '"gpec[data]"').Booster()
    booster.load_model(path)
    booster.num_features()  # raises if its settings do not fit; they are not looked at before
    return booster


def _of_lightgbm(path: Path) -> Any:
    lightgbm = check_installed("lightgbm", str(path), "lightgbm")
    with open(path, "rb") as file:
        if not file.readline().startswith(b"tree"):  # LightGBM would print a message of its own
            raise CorruptFileError(f"{path} is not a model of LightGBM; write it by booster.save_model.")
        settings = dropwhile(lambda line: not line.startswith(b"parameters:"), file)
        for line in islice(takewhile(lambda line: not line.startswith(b"end of parameters"), settings), 1, None):
            if not _SETTING.fullmatch(line.strip()):  # LightGBM would read beyond its end
                raise CorruptFileError(f"{path} is damaged: its parameters are incomplete; write the model again.")
    booster = lightgbm.Booster(model_file=path)
    booster.model_to_string(num_iteration=1)  # raises if its names and settings are not UTF-8 text
    return booster


def _of_catboost(path: Path) -> Any:
    catboost = check_installed("catboost", str(path), "catboost")
    with_classes = len(catboost.CatBoost().load_model(path).classes_) > 0
    return (catboost.CatBoostClassifier() if with_classes else catboost.CatBoostRegressor()).load_model(path)


READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    ".json": ("a model of XGBoost", _of_xgboost),
    ".ubj": ("a model of XGBoost", _of_xgboost),
    ".txt": ("a model of LightGBM", _of_lightgbm),
    ".cbm": ("a model of CatBoost", _of_catboost),
}


def _of_skops(path: Path, trusted: Sequence[str]) -> Any:
    skops = check_installed("skops.io", str(path), '"gpec[files]"')
    untrusted = sorted(set(skops.get_untrusted_types(file=path)) - set(trusted))
    if untrusted:
        raise InputError(
            f"{path} holds types that skops does not consider safe: {', '.join(untrusted)}; if you trust them, name "
            "each (--trust-type)."
        )
    return skops.load(path, trusted=list(trusted))


def _unpickled(path: Path, trusted: bool) -> Any:
    if not trusted:
        raise InputError(
            f"{path} is a pickle, and reading it executes arbitrary code; if you trust it, pass trust_pickle=True "
            "(--trust-pickle), else save the model in another format: skops, ONNX, or the library's own."
        )

    import joblib

    return _read(path, "a pickle", joblib.load)


def _import_object(text: str) -> Any:
    module, _, name = text.partition(":")
    try:
        target: Any = importlib.import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the module's own code can raise anything, and call sys.exit
        reason = str(error) if isinstance(error, ImportError) else f"its module raised {type(error).__name__}: {error}"
        raise InputError(f"{text} cannot be imported: {' '.join(reason.split()).rstrip('.')}.") from error
    for part in name.split("."):
        if not hasattr(target, part):
            raise InputError(f"The module {module} has no {name!r}.")
        target = getattr(target, part)
    return target
