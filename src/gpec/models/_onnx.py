"""A classifier or regressor in an ONNX file, run by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpec._validation import check_installed
from gpec.errors import CorruptFileError, InputError
from gpec.models._tensors import TensorSpec, choose_output, columns_of, tensors

_DTYPES: dict[str, npt.DTypeLike] = {
    "tensor(bool)": np.bool_,
    "tensor(double)": np.float64,
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(string)": object,
}


class OnnxModel:
    """An ONNX file as a function ``X -> (n, classes)`` that gives probabilities, or the values of a regressor.

    The graph takes one tensor with all columns, or one tensor for each column with the name of the column. Its
    probabilities are a tensor, or a list of dictionaries from class to probability, the default of skl2onnx.

    Attributes
    ----------
    feature_names_in_, n_features_in_
        The columns, if the file states them.
    classes_ : array or None
        Names of the classes, if the probabilities are dictionaries; set by the first call.
    """

    def __init__(self, path: Path, output: str | None = None) -> None:
        onnxruntime = check_installed("onnxruntime", str(path), '"gpec[files]"')
        try:
            self._session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors have no common base class
            reason = " ".join(str(error).split())
            raise CorruptFileError(f"{path} cannot be read as an ONNX model: {reason}.") from error
        self._inputs = [_spec(node) for node in self._session.get_inputs()]
        unsupported = [node.type for node in self._session.get_inputs() if node.type not in _DTYPES]
        if unsupported:
            raise InputError(f"{path} takes an input of type {unsupported[0]}; gpec gives tensors of numbers or text.")
        chosen = choose_output([_spec(node) for node in self._session.get_outputs()], output, str(path))
        self._output = str(chosen)
        self.feature_names_in_, self.n_features_in_ = columns_of(self._inputs)
        self.classes_: npt.NDArray[Any] | None = None

    def __call__(self, rows: Any) -> npt.NDArray[Any]:
        feed = {spec.name: values for spec, values in tensors(rows, self._inputs)}
        (answer,) = self._session.run([self._output], feed)
        if isinstance(answer, list) and answer and isinstance(answer[0], dict):
            names = list(answer[0])
            self.classes_ = np.array(names)
            answer = [[of[name] for name in names] for of in answer]
        return np.asarray(answer, dtype=np.float64)


def _spec(node: Any) -> TensorSpec:
    shape = node.shape if isinstance(node.shape, list) else []
    width = shape[1] if len(shape) == 2 and isinstance(shape[1], int) else None
    return TensorSpec(node.name, _DTYPES.get(node.type), len(shape), width)
