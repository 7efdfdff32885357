"""Everything that differs between the outputs of a classifier and of a regressor.

A model returns *scores*. Its *answers* are probabilities or values, its *outputs* are answers on an unbounded scale:
log-odds or values. All have shape ``(n, c)``. ``Model.kind`` is one of the two classes below, which have the same
methods.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import expit, logit, logsumexp, softmax

from gpec.typing import FloatArray

_LARGEST_LOG_ODDS = 36.0  # beyond it 1 - p rounds to 0 in double precision
_LARGEST_COMPARED = 8.0  # log-odds of a probability of 0.0003: beyond it answers are the same
_SAME = 1e-5  # answers that differ by less count as equal
_ROUNDING = 5e-7  # relative rounding in single precision, which many models use
_SUM_TOLERANCE = 1e-6
_SUM_OF_SPREAD = 1e-2  # the largest error of a sum, if rounding is coarse compared with the spread of the answers


class Classification:
    """Outputs of a classifier: a probability or a logit for the positive class, or one for each of several classes."""

    is_regression = False
    answer = "probability"
    model_output: Literal["probability", "value"] = "probability"  # of a model that returns answers
    wanted = "one probability or one for each class"  # of the model, for each row
    columns = "classes"  # the size of the second axis
    links = ("identity", "logit")  # that explainers can have
    other_units = "different units, such as probability and log-odds"
    boundary, sampled = "decision boundary", "boundary"  # names of the surface and of points on it
    not_crossed = "class does not change as it should"
    sampler = "bisection"  # what boundary="auto" means
    has_effect = False  # whether the kernel "auto" includes Effect
    absolute = 1.0  # answers smaller than this are compared absolutely

    def answers(self, scores: FloatArray, returned: str) -> FloatArray:
        """Answers from scores; ``returned`` is what the model returns: "probability", "logit" or "value"."""
        if returned == "probability":
            return scores
        return np.asarray(expit(scores) if scores.shape[1] == 1 else softmax(scores, axis=1), dtype=np.float64)

    def outputs(self, scores: FloatArray, returned: str) -> FloatArray:
        """Outputs from scores, clipped so that they are finite."""
        odds = scores
        if returned == "probability":
            odds = logit(scores)
        elif scores.shape[1] > 1:  # logits are compared as such: a saturated probability has lost the order
            others = [logsumexp(np.delete(scores, c, axis=1), axis=1) for c in range(scores.shape[1])]
            odds = scores - np.column_stack(others)
        return np.clip(odds, -_LARGEST_LOG_ODDS, _LARGEST_LOG_ODDS)

    def answers_from(self, outputs: FloatArray) -> FloatArray:
        """The answers that belong to outputs."""
        return np.asarray(expit(outputs))

    def compared(self, outputs: FloatArray) -> FloatArray:
        """The part of outputs that kernels compare: log-odds and probabilities, or values."""
        return np.concatenate((np.clip(outputs, -_LARGEST_COMPARED, _LARGEST_COMPARED), expit(outputs)), axis=-1)

    def unit(self, answers: FloatArray) -> float:
        """The unit for changes of answers: 1 for probabilities, the spread for values."""
        return 1.0

    def tolerance(self, answers: FloatArray) -> float:
        """The largest change of answers that can be rounding."""
        return _SAME

    def sums(self, outputs: FloatArray) -> list[tuple[str, FloatArray, float]]:
        """Quantities that attributions can add up to: name, values and tolerance of each."""
        named = (("probability", self.answers_from(outputs)), ("log-odds", outputs))
        return [(name, values, _SUM_TOLERANCE * max(1.0, np.abs(values).max())) for name, values in named]

    def margins(self, answers: FloatArray, output: int, threshold: float, levels: list[float]) -> list[FloatArray]:
        """Distance of answers from each surface of an output: above 0 inside the class or above the level."""
        if answers.shape[1] == 1:
            return [answers[:, 0] - threshold]
        return [answers[:, output] - np.delete(answers, output, axis=1).max(axis=1)]

    def explained(self, link: str) -> str:
        """The quantity that an explainer with this link explains."""
        return "log-odds" if link == "logit" else "probability"

    def n_classes(self, columns: int) -> int:
        """The number of classes of a model that returns this number of columns; 1 for a regressor."""
        return max(columns, 2)

    def names(self, classes: list[str]) -> list[str] | str | None:
        """Names of the explained outputs: all classes, the positive one of two, or None."""
        return classes[1] if len(classes) == 2 else classes

    def described(self, n_classes: int | None) -> str:
        """The model in messages."""
        return f"a model with {n_classes} classes"


class Regression:
    """Outputs of a regressor: one value, which is score, answer and output."""

    is_regression = True
    answer = "value"
    model_output: Literal["probability", "value"] = "value"
    wanted = "one number"
    columns = "1"
    links = ("identity",)
    other_units = "different units"
    boundary, sampled = "level set", "level sets"
    not_crossed = "value does not pass its level"
    sampler = "levels"
    has_effect = True
    absolute = 0.0

    def answers(self, scores: FloatArray, returned: str) -> FloatArray:
        return scores

    outputs = answers

    def answers_from(self, outputs: FloatArray) -> FloatArray:
        return outputs

    compared = answers_from

    def unit(self, answers: FloatArray) -> float:
        """The spread: half of the interquartile range, else the standard deviation, else the largest size."""
        low, high = np.quantile(answers, (0.25, 0.75))
        largest = float(np.abs(answers).max()) or 1.0
        return float(high - low) / 2 or float(np.std(answers / largest)) * largest or largest

    def tolerance(self, answers: FloatArray) -> float:
        return max(_SAME * self.unit(answers), _ROUNDING * float(np.abs(answers).max()))

    def sums(self, outputs: FloatArray) -> list[tuple[str, FloatArray, float]]:
        return [("output", outputs, min(self.tolerance(outputs), _SUM_OF_SPREAD * self.unit(outputs)))]

    def margins(self, answers: FloatArray, output: int, threshold: float, levels: list[float]) -> list[FloatArray]:
        return [answers[:, 0] - level for level in levels]

    def explained(self, link: str) -> str:
        return "output"

    def n_classes(self, columns: int) -> int:
        return 1

    def names(self, classes: list[str]) -> list[str] | str | None:
        return None

    def described(self, n_classes: int | None) -> str:
        return "a regressor"


OutputKind = Classification | Regression
