"""The playground's computations: from the controls to widths over a grid.

    controls ──> model ──> boundary ──> fit ──> surface, reading of a point
                   └────> explainer ────┘

Each stage is a pure, cached function of a part of the controls, so a slider runs only the stages that depend on it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.stats import norm

from gpec.app._datasets import Dataset, load_dataset, train
from gpec.app._shapley import NoisyExplainer, noisy_shapley
from gpec.boundary import BisectionSampler, BoundarySample
from gpec.data import Schema
from gpec.errors import BoundaryNotFoundError, FewBoundaryPointsWarning, InputError, NoiseFloorWarning
from gpec.estimator import GPEC
from gpec.explanation import Explanation
from gpec.kernels import WEG, Between, Matern, Output, Own, Rest
from gpec.similar import NearestRows
from gpec.typing import FloatArray

PAPER, SIMILAR = "paper", "similar"
ALIKE = 0.9  # rows whose kernel with a row is at least this form its similarity ball
MOST_ADDED = 30
_EXPLAINED, _BACKGROUND = 24, 20
_GRID = {PAPER: 40, SIMILAR: 22}  # points along each axis; with similar rows a point costs eight times as much
_FINE = 60
_NEIGHBORS = 6
_SEED = 0
_FADED = 3.0  # length of a term that learning switched off, so that its sliders still have an effect


@dataclass(frozen=True)
class Controls:
    """The settings of the playground."""

    dataset: str = "sine"
    model: str = "network"
    regularisation: float = 1.0
    meaning: str = PAPER
    lam: float = 1.0
    rho: float = 10.0
    n_boundary: int = 200
    noise: float = 0.02  # standard deviation of the explainer's answers
    step: float = 0.5  # of similar rows
    added: tuple[tuple[float, float], ...] = ()  # rows explained in addition to the initial ones

    def __post_init__(self) -> None:
        if len(self.added) > MOST_ADDED:
            raise InputError(f"At most {MOST_ADDED} rows can be added; clear some first.")

    @property
    def of_model(self) -> Controls:
        """The settings that the model depends on."""
        return self.only("dataset", "model", "regularisation")

    def only(self, *names: str) -> Controls:
        """The same values in these fields, and defaults in all others."""
        return Controls(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True, eq=False)
class Surface:
    """The data of the plot; arrays over a grid of ``dataset.axes`` are ``(y, x)``, and contours use a finer grid."""

    dataset: Dataset
    width: FloatArray  # (y, x, feature)
    probability: FloatArray  # over the fine grid
    boundary: FloatArray
    explained: FloatArray
    n_added: int
    statement: str

    def median_width(self, feature: int) -> float:
        return float(np.median(self.width[..., feature]))


@dataclass(frozen=True, eq=False)
class Reading:
    """The results at one point."""

    point: tuple[float, float]
    probability: float
    e: Explanation  # of one value
    distance: float  # to the nearest boundary point, in standard deviations of the features
    ball: FloatArray  # kernel between the point and the fine grid, (y, x)
    similar: FloatArray  # its similar rows; none for the paper's meaning


@lru_cache(maxsize=32)
def _model(key: Controls) -> Any:
    return train(load_dataset(key.dataset), key.model, key.regularisation)


def _explainer(controls: Controls) -> NoisyExplainer:
    dataset, model = load_dataset(controls.dataset), _model(controls.of_model)
    return noisy_shapley(lambda rows: model.predict_proba(rows)[:, 1], dataset.X[-_BACKGROUND:], controls.noise, _SEED)


@lru_cache(maxsize=64)
def _boundary(key: Controls) -> BoundarySample:
    dataset, model = load_dataset(key.dataset), _model(key.of_model)
    with warnings.catch_warnings():  # the page shows how many were found
        warnings.simplefilter("ignore", FewBoundaryPointsWarning)
        try:
            sampler = BisectionSampler(rows="box")
            return sampler.sample(model, dataset.X, key.n_boundary, random_state=_SEED, progress=False)
        except BoundaryNotFoundError as error:
            raise InputError(
                "The model predicts one class for the whole map, so it has no boundary; lower the regularisation."
            ) from error


@lru_cache(maxsize=16)
def _probability(key: Controls) -> FloatArray:
    grid = _grid(load_dataset(key.dataset), _FINE)
    return np.asarray(_model(key).predict_proba(grid)[:, 1].reshape(_FINE, _FINE))


@lru_cache(maxsize=16)
def _usual_square(key: Controls) -> float:
    """Mean square of the attributions of the data set's rows: the prior variance."""
    values, _ = _explainer(key)(load_dataset(key.dataset).X)
    return max(float(np.mean(values**2)), 1e-12)


@lru_cache(maxsize=16)
def _lengths(key: Controls) -> dict[str, float]:
    """Lengths of the four parts of gpec's own kernel, learned once for a data set and a kind of model.

    They stay fixed while sliders move, so that a slider changes only its own setting.
    """
    dataset, model = load_dataset(key.dataset), _model(key)
    settings: dict[str, Any] = {"n_explained": 40, "similar": None, "random_state": _SEED, "progress": False}
    g = GPEC(model, _explainer(key), boundary=_boundary(key), **settings).fit(dataset.X)
    learned = {name: part.length_ for name, part in g.kernel_.terms_.items()}
    return {name: learned.get(name, _FADED) for name in ("own", "rest", "output", "weg")}


def _kernel(controls: Controls) -> Matern:
    length = _lengths(controls.only("dataset", "model"))
    boundary = Between(WEG(controls.lam, controls.rho), length["weg"])
    return Matern(Own(length["own"]), Rest(length["rest"]), Output(length["output"]), boundary)


@lru_cache(maxsize=32)
def fit_of(controls: Controls) -> GPEC:
    """A GPEC fitted with the settings.

    The paper's meaning has the paper's kernel and a fixed scale, so that one more explained row can only narrow
    intervals; similar rows have gpec's own kernel, in which ``lam`` and ``rho`` shape one part of four.
    """
    dataset = load_dataset(controls.dataset)
    rows = np.concatenate((dataset.X[:_EXPLAINED], np.array(controls.added, dtype=np.float64).reshape(-1, 2)))
    if controls.meaning == PAPER:
        scale = _usual_square(controls.of_model)
        meaning: dict[str, Any] = {"kernel": "weg", "similar": None, "output_scale": scale}
    else:
        meaning = {"kernel": _kernel(controls), "similar": NearestRows(n_neighbors=_NEIGHBORS, step=controls.step)}
    g = GPEC(
        _model(controls.of_model),
        _explainer(controls),
        lam=controls.lam,
        rho=controls.rho,
        boundary=_boundary(controls.only("dataset", "model", "regularisation", "n_boundary")),
        n_boundary=controls.n_boundary,
        background=dataset.X[-_BACKGROUND:],
        random_state=_SEED,
        progress=False,
        **meaning,
    )
    with warnings.catch_warnings():  # exact attributions have no noise
        warnings.simplefilter("ignore", NoiseFloorWarning)
        return g.fit(dataset.X, X_explained=rows)


@lru_cache(maxsize=32)
def surface_of(controls: Controls) -> Surface:
    """Widths of the intervals over the map."""
    dataset, g = load_dataset(controls.dataset), fit_of(controls)
    n = _GRID[controls.meaning]
    grid = _grid(dataset, n)
    if controls.meaning == PAPER:
        # the variance of an answer does not depend on the answer
        e = g.explain(grid, attribution="posterior")
        width = 2.0 * norm.isf(0.025) * np.sqrt(e.variance + controls.noise**2)
    else:
        e = g.explain(grid)
        width = e.width
    width, probability, explained = width.reshape(n, n, 2), _probability(controls.of_model), np.asarray(g.X_explained_)
    return Surface(dataset, width, probability, g.boundary_.points, explained, len(controls.added), e.statement())


@lru_cache(maxsize=64)
def reading_at(controls: Controls, point: tuple[float, float], feature: int) -> Reading:
    """The results for one feature at one point."""
    dataset, g = load_dataset(controls.dataset), fit_of(controls)
    row = np.array([point])
    e = g.explain(row)[0, feature]
    schema, _ = Schema.learn(dataset.X)
    here = schema.embed(row)
    kernel = g.kernel_ if controls.meaning == PAPER else WEG(controls.lam, controls.rho).fit(g.graph_)
    gap = np.linalg.norm(schema.embed(g.boundary_.points) - here, axis=1).min()
    similar = np.asarray(g.similar_rows(row)) if controls.meaning == SIMILAR else np.empty((0, 2))
    ball = kernel(here, schema.embed(_grid(dataset, _FINE))).reshape(_FINE, _FINE)
    return Reading(point, float(_model(controls.of_model).predict_proba(row)[0, 1]), e, float(gap), ball, similar)


def _grid(dataset: Dataset, n: int) -> FloatArray:
    return np.column_stack([axis.ravel() for axis in np.meshgrid(*dataset.axes(n))])
