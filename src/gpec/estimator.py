"""GPEC: an error bar on every feature attribution. Reads as Algorithms 1 and 2 of the paper."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, clone
from threadpoolctl import threadpool_limits

from gpec import archive
from gpec._version import __version__
from gpec.boundary import BoundarySample, Sampler
from gpec.errors import BoundaryNotFoundError, ModelMismatchError, NotFittedError, NumericalError
from gpec.explainers import Attribution, Explainer
from gpec.explainers.base import check_attribution
from gpec.explainers.noise import noise_variance, observe
from gpec.explanation import Explanation
from gpec.fitted import Fitted, Layer, bound, predict
from gpec.geometry import GeodesicGraph
from gpec.gp import Parameters, fit_parameters, fixed_parameters
from gpec.gp.regression import JITTER
from gpec.kernels import Kernel
from gpec.model import Model
from gpec.preparation import check_parameters, prepare
from gpec.table import FloatArray
from gpec.validation import check_choice, check_level, spawn

__all__ = ["GPEC", "PAPER"]

# The paper's settings; pass them as GPEC(model, explainer, **PAPER).
PAPER: dict[str, Any] = {
    "standardize": False,
    "lam": 1.0,
    "rho": 0.1,
    "output_scale": 1.0,
    "noise": 1e-4,
    "n_neighbors": 5,
}

_EVIDENCE_ROWS = 1_000  # explained rows from which the parameters are learned
_PROBE_ROWS = 20


class GPEC(BaseEstimator):
    """Boundary-aware uncertainty of feature attributions, for any classifier and any explainer.

    ``fit`` samples the model's decision boundary, measures distances along it and explains some rows; ``explain`` then
    gives each attribution of any row a variance, split into what the boundary's shape and what the explainer's noise
    leave open.

    Parameters
    ----------
    model : object
        Classifier with ``predict_proba``, ``torch.nn.Module``, ``xgboost.Booster``, or a callable ``X -> (n,)`` or
        ``(n, c)``.
    explainer : str, object or callable, default "kernelshap"
        "kernelshap", "lime", "shapley_sampling", "bayeslime", "bayesshap", "cxplain", "tree", "exact", "captum:<Name>",
        an object of :mod:`gpec.explainers`, a shap explainer, or ``X -> (n, d)`` / ``(n, d, c)``, which may return
        ``(values, variance)``.
    kernel : {"weg", "rbf"} or Kernel
        Similarity of rows; ``lam`` and ``rho`` belong to "weg". "rbf" knows nothing of the boundary (the paper's
        Naive-GP); its lengthscale is learned.
    lam, rho : float or "auto"
        See :class:`gpec.kernels.WEG`.
    boundary : "auto", Sampler, BoundarySample or array
        How to sample the boundary, or the sample itself (``g.boundary_`` of an earlier fit).
    n_boundary : int
        Distinct boundary points for each class.
    n_neighbors, n_landmarks, components
        See :meth:`gpec.geometry.GeodesicGraph.build`.
    n_explained : int
        Rows of ``X`` explained in ``fit``, unless ``X_explained`` is given.
    background : int or rows
        Background rows of the explainer: how many to draw from ``X``, or the rows.
    noise : {"auto", "resample", "resample-paper", "none"}, float or array
        The explainer's variance: its own, from ``n_resamples`` runs, none, or as given. With "resample" the values are
        the mean of the runs and the variance is that of the mean; "resample-paper" keeps the first run and the spread
        of all (Eq. 3).
    output_scale : "evidence" or float
        "evidence" learns scale, mean and nugget of each feature, so that variances are in attribution units; a number
        keeps the kernel's own scale times it.
    standardize : bool
        Measure distances between standardised features.
    model_output, threshold
        See :class:`gpec.model.Model`.
    categorical_features : "auto", None or list of columns
        Columns that are switched, never interpolated; "auto" takes category, text and bool columns.
    random_state : int, Generator, RandomState or None
        Seed of everything random; the result does not depend on ``n_jobs``.
    n_jobs : int or None
        Threads for ``explain``.
    progress : "auto" or bool
        Show progress bars on a terminal, always or never.

    Attributes
    ----------
    boundary_, graph_, kernel_, posterior_
        What was learned on the way; with several classes, graph, kernel and posterior are tuples with one for each.
    X_explained_, attributions_
        The rows explained in ``fit`` and their attributions.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn.
    diagnostics_ : dict
        Model rows, seconds by stage, components, clipped mass, condition, choices made.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> import gpec
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X, y == 2)
    >>> g = gpec.GPEC(model, n_boundary=200, n_explained=30, background=20, random_state=0).fit(X)
    >>> g.explain(X[:5]).std.shape
    (5, 4)
    """

    def __init__(
        self,
        model: Any,
        explainer: Any = "kernelshap",
        *,
        kernel: Any = "weg",
        lam: float | Literal["auto"] = "auto",
        rho: float | Literal["auto"] = "auto",
        boundary: Any = "auto",
        n_boundary: int = 2000,
        n_neighbors: int = 10,
        n_landmarks: int | Literal["auto"] = "auto",
        components: Literal["separate", "bridge"] = "separate",
        n_explained: int = 200,
        background: Any = 100,
        noise: Any = "auto",
        n_resamples: int = 10,
        output_scale: float | Literal["evidence"] = "evidence",
        standardize: bool = True,
        model_output: Literal["auto", "probability", "logit"] = "auto",
        threshold: float = 0.5,
        categorical_features: Any = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        progress: Literal["auto"] | bool = "auto",
    ) -> None:
        self.model = model
        self.explainer = explainer
        self.kernel = kernel
        self.lam = lam
        self.rho = rho
        self.boundary = boundary
        self.n_boundary = n_boundary
        self.n_neighbors = n_neighbors
        self.n_landmarks = n_landmarks
        self.components = components
        self.n_explained = n_explained
        self.background = background
        self.noise = noise
        self.n_resamples = n_resamples
        self.output_scale = output_scale
        self.standardize = standardize
        self.model_output = model_output
        self.threshold = threshold
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        X_explained: Any = None,
        attributions: Any = None,
        attribution_variance: Any = None,
    ) -> Self:
        """Algorithm 1: sample the boundary, explain some rows, and condition the Gaussian process on them.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Rows like those the model was trained on.
        y : ignored
        X_explained : rows, optional
            The rows to explain; by default ``n_explained`` rows of ``X``, or all of ``X`` with ``attributions``.
        attributions, attribution_variance : arrays, optional
            Attributions of ``X_explained`` computed elsewhere, and their variance. Pass the explainer they came from as
            ``explainer``, or ask for ``attribution="posterior"`` later.
        """
        self._forget()
        clock = _Clock()
        job = prepare(self, X, X_explained, attributions, attribution_variance)
        model, table, seed = job.model, job.table, job.seed
        probe = job.explained[:_PROBE_ROWS]
        answer = model.probabilities(probe)

        with clock("boundary"):  # M
            try:
                boundary = self._sample_boundary(job.sampler, model, job.rows, seed)
            except (BoundaryNotFoundError, ModelMismatchError):
                model.require_repeatable(probe, answer)  # if this is why, say so
                raise
        with clock("explainer"):  # E, U
            if job.given is not None:
                observed = check_attribution(job.given, len(job.explained), table.n_features, model, given=True)
                U, noise_source = noise_variance(self.noise, observed, None, job.explained, seed)
                if job.explainer is not None and job.explainer.learns:  # the rows are here now, and not in explain
                    job.explainer.meet(model, job.background, job.rows, seed)
            else:
                explainer = cast(Explainer, job.explainer)  # prepare saw to it
                explainer.meet(model, job.background, job.rows, seed)
                observed = self._observe(explainer, job.explained, seed)
                U, noise_source = noise_variance(self.noise, observed, job.explainer, job.explained, seed)
        E = table.embed(job.explained)
        layers = []
        with threadpool_limits(1, "blas"):  # see gpec.kernels.factor
            for label in range(1 if model.is_binary else len(model.classes)):
                Y = observed.values if model.is_binary else observed.values[:, :, label]
                noise = U if model.is_binary else U[:, :, label]
                with clock("geometry"):  # d_geo
                    graph = self._build_graph(table.embed(boundary.of(label).points, "boundary"), seed)
                with clock("kernel"):  # G, W
                    kernel = clone(job.kernel).fit(graph, E).tune(E, Y, noise, self.output_scale)
                with clock("gp"):  # K, (K + U)^-1
                    parameters = self._parameters(kernel, E, Y, noise, seed)
                    layers.append(Layer.condition(graph, kernel, parameters, E, Y, noise, seed))
        model.require_repeatable(probe, answer)

        fitted = Fitted(
            table,
            model,
            job.explainer,
            {} if job.explainer is None else job.explainer.fitted_state(),
            job.background,
            job.explained,
            observed,
            U,
            boundary,
            layers,
            probe,
            answer,
            seed,
        )
        self._keep(fitted)
        self.diagnostics_ = {
            "version": __version__,
            "seed": seed,
            "model_rows": model.n_rows,
            "model_calls": model.n_calls,
            "seconds": clock.seconds,
            "boundary_points": np.bincount(boundary.label).tolist(),
            "components": [layer.graph.n_components for layer in layers],
            "landmarks": [len(layer.graph.landmarks) for layer in layers],
            "kernel": [layer.kernel.diagnostics() for layer in layers],
            "scale": [layer.posterior.parameters.scale.tolist() for layer in layers],
            "nugget": [layer.posterior.parameters.nugget.tolist() for layer in layers],
            "jitter": JITTER,
            "condition": [layer.posterior.condition for layer in layers],
            "noise": noise_source,
            "unit": "as given" if job.given is not None or job.explainer is None else job.explainer.unit,
            "settings": archive.describe_settings(self),
        }
        return self

    def explain(
        self,
        X: Any,
        *,
        attribution: Literal["explainer", "posterior"] = "explainer",
        confidence_level: float = 0.95,
    ) -> Explanation:
        """Algorithm 2: attributions of the rows ``X`` with their uncertainty.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Rows to explain.
        attribution : {"explainer", "posterior"}
            Take the values from the explainer, or from the posterior mean, which needs no explainer. The variance is
            the same: that of the latent explanation given the explanations of the rows seen in ``fit``.
        confidence_level : float
            Level of the bounds.
        """
        fitted = self._require_fitted()
        check_parameters(self)  # they may have been set since fit
        check_choice("attribution", attribution, ("explainer", "posterior"))
        level = check_level(confidence_level)
        table, model = fitted.table, fitted.model
        Z = table.encode(X)
        embedded = table.embed(Z)
        clock, rows_before = _Clock(), model.n_rows
        with clock("explainer"):
            answer = None
            if attribution == "explainer":
                answer = self._observe(bound(fitted), Z, fitted.seed)
        with clock("gp"):
            V = predict(fitted.layers, embedded, self.n_jobs, self.progress)
        values = V.mean if answer is None else answer.values
        if not (np.isfinite(values).all() and np.isfinite(V.variance).all()):
            raise NumericalError("The posterior is not finite; rescale the attributions or add noise.")
        several = not model.is_binary
        names = [str(name) for name in self.classes_]
        return Explanation(
            values=values,
            boundary_variance=V.boundary_variance,
            noise_variance=V.noise_variance,
            explainer_variance=None if answer is None else answer.variance,
            base_values=None if answer is None else answer.base_values,
            data=np.asarray(table.decode(Z), dtype=object) if table.categories else Z,
            feature_names=list(table.names),
            output_names=names if several else names[1],
            confidence_level=level,
            diagnostics={
                **{key: self.diagnostics_[key] for key in ("version", "seed", "noise", "unit", "settings")},
                "attribution": attribution,
                "model_rows": model.n_rows - rows_before,
                "seconds": clock.seconds,
                "clamped": V.n_clamped,
            },
            axes=("row", "feature", "output") if several else ("row", "feature"),
        )

    __call__ = explain

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything but the model and the explainer to a file; no pickle."""
        archive.save(self, self._require_fitted(), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, model: Any, explainer: Any = None) -> GPEC:
        """Read what :meth:`save` wrote, and check that ``model`` is the model that was fitted.

        ``explainer`` is needed for ``attribution="explainer"`` unless it was given by name.
        """
        return archive.load(cls, path, model, explainer)

    def __sklearn_clone__(self) -> GPEC:
        kept = {"model", "explainer", "boundary"}  # by reference: the user's fitted model stays fitted
        parameters = self.get_params(deep=False)
        return type(self)(
            **{name: value if name in kept else clone(value, safe=False) for name, value in parameters.items()}
        )

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_") or name == "_fitted"]:
            delattr(self, name)

    def _keep(self, fitted: Fitted) -> None:
        binary, layers, table = fitted.model.is_binary, fitted.layers, fitted.table
        self._fitted = fitted
        self.boundary_ = fitted.boundary
        self.graph_ = layers[0].graph if binary else tuple(layer.graph for layer in layers)
        self.kernel_ = layers[0].kernel if binary else tuple(layer.kernel for layer in layers)
        self.posterior_ = layers[0].posterior if binary else tuple(layer.posterior for layer in layers)
        self.X_explained_ = table.decode(fitted.explained)
        self.attributions_ = Attribution(fitted.observed.values, fitted.U, fitted.observed.base_values)
        self.classes_ = fitted.model.classes
        self.n_features_in_ = table.n_features
        if table.labels is not None:
            self.feature_names_in_ = np.array(table.names, dtype=object)

    def _require_fitted(self) -> Fitted:
        if not hasattr(self, "_fitted"):
            raise NotFittedError("This GPEC is not fitted yet; call fit(X) first.")
        return self._fitted

    def _observe(self, explainer: Explainer, Z: FloatArray, seed: int) -> Attribution:
        return observe(explainer, Z, noise=self.noise, n_resamples=self.n_resamples, seed=seed, progress=self.progress)

    def _sample_boundary(
        self, sampler: Sampler | BoundarySample, model: Model, Z: FloatArray, seed: int
    ) -> BoundarySample:
        if isinstance(sampler, Sampler):
            return sampler.draw(model, Z, self.n_boundary, seed=seed, progress=self.progress)
        sampler.require_belongs(model, seed)
        return sampler

    def _build_graph(self, points: FloatArray, seed: int) -> GeodesicGraph:
        graph = GeodesicGraph.build(
            points,
            n_neighbors=self.n_neighbors,
            n_landmarks=self.n_landmarks,
            components=self.components,
            random_state=seed,
            progress=self.progress,
        )
        graph.distances  # noqa: B018  computed on demand; asked for here so that their time is counted here
        return graph

    def _parameters(self, kernel: Kernel, E: FloatArray, Y: FloatArray, U: FloatArray, seed: int) -> Parameters:
        if not isinstance(self.output_scale, str):
            return fixed_parameters(self.output_scale, Y.shape[1])
        rows = np.sort(spawn(seed, 13).permutation(len(E))[:_EVIDENCE_ROWS])
        return fit_parameters(kernel.gram(E[rows]), Y[rows], U[rows])


class _Clock:
    """Seconds spent, by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - started
