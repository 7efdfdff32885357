"""Seconds: what the paper prints, what we found, and how they compare."""

from __future__ import annotations

from typing import Any

import numpy as np

from paper._runs import Run, mean_and_error

__all__ = [
    "COMPARABLE",
    "IMAGES",
    "LEARNING",
    "LEAST",
    "PAPER_INFERENCE",
    "PAPER_POINTS",
    "PAPER_TRAINING",
    "PERTURBING",
    "comparable",
    "logs_of",
    "ours_of",
    "slower",
]

# Table 2 and 3 in seconds for 100 rows, Table 4 in minutes.
PAPER_INFERENCE = {
    "Census": {"GPEC": 0.11, "Naive-GP": 0.00, "CXPlain": 0.05, "BayesSHAP": 140.40, "BayesLIME": 91.29},
    "Online Shoppers": {"GPEC": 0.37, "Naive-GP": 0.00, "CXPlain": 0.06, "BayesSHAP": 54.56, "BayesLIME": 54.60},
    "German Credit": {"GPEC": 0.07, "Naive-GP": 0.02, "CXPlain": 0.04, "BayesSHAP": 4.86, "BayesLIME": 4.83},
    "MNIST": {"GPEC": 12.90, "Naive-GP": 8.95, "CXPlain": 9.76, "BayesSHAP": 42_467.0, "BayesLIME": 41_832.0},
}
PAPER_TRAINING = {
    "Census": {"GPEC": 35.7, "sampling": 35.7, "Naive-GP": 0.02, "CXPlain": 1.07},
    "Online Shoppers": {"GPEC": 22.5, "sampling": 22.4, "Naive-GP": 0.02, "CXPlain": 0.34},
    "German Credit": {"GPEC": 22.4, "sampling": 22.4, "Naive-GP": 0.02, "CXPlain": 1.71},
    "MNIST": {"GPEC": 94.4, "sampling": 34.5, "Naive-GP": 7.03, "CXPlain": 3.54},
}
LEARNING, PERTURBING = ("Naive-GP", "CXPlain"), ("BayesSHAP", "BayesLIME")
IMAGES = "MNIST"
COMPARABLE = 10.0  # times GPEC's, or a tenth of it
_ALONE = 2.0  # a factor that a single run must exceed
PAPER_POINTS = 10_000
LEAST = 0.005  # seconds, shown as 0.00 in the paper


def ours_of(run: Run, name: str, *path: str) -> np.ndarray:
    """One number for each seed."""
    found: list[Any] = [run.values[f"{name}, seed {seed}"] for seed in range(run.settings["seeds"][name])]
    for word in path:
        found = [one[word] for one in found]
    return np.array(found, dtype=float)


def logs_of(run: Run, name: str, method: str) -> np.ndarray:
    """Logarithms of the method's inference time over GPEC's in the same run."""
    return np.log(ours_of(run, name, "inference", method) / ours_of(run, name, "inference", "GPEC"))


def slower(logs: Any) -> bool:
    """Whether a method takes longer than GPEC beyond two standard errors, or of a single run twice as long."""
    mean, error = mean_and_error(logs)
    return bool(mean > (2 * error if np.isfinite(error) else np.log(_ALONE)))


def comparable(logs: Any) -> bool:
    """Whether a method takes between a tenth and ten times as long as GPEC."""
    return bool(abs(np.mean(logs)) <= np.log(COMPARABLE))
