"""GPEC: an error bar on every feature attribution. Reads as Algorithms 1 and 2 of the paper."""

from __future__ import annotations

import os
import warnings
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone

from gpec._validation import check_choice, check_count, check_level, check_positive
from gpec.boundary._registry import make_sampler
from gpec.distributed._frames import explain_lazily, is_dask
from gpec.errors import CalibrationWarning, CorruptFileError, GPECError, InputError, MissingPartError, NotFittedError
from gpec.explanation import Explanation
from gpec.gp.conditioning import LARGEST_RANK
from gpec.pipeline.attributions import detect_sum, explain_sample
from gpec.pipeline.calibration import calibrate_on, check_some_explained, loo_calibrate
from gpec.pipeline.context import check_fit_inputs, open_fit_checkpoint, seed_of
from gpec.pipeline.cost import cost_of_fitted, cost_of_unfitted
from gpec.pipeline.effort import budget_left, calibration_effort, choose_effort, explanation_effort, n_pairs
from gpec.pipeline.explain import (
    explain_rows,
    latent_intervals,
    make_explanation,
    open_checkpoint,
    read_answer,
    require_unit_of_fit,
    row_labels,
    value_intervals,
    with_samples,
)
from gpec.pipeline.fitted import Fitted, OutputModel, SavedGPEC
from gpec.pipeline.gaussian_process import build_graph, fit_kernel, fit_posterior
from gpec.pipeline.groups import draw_rows, in_their_groups, read_asked, read_later, table_of
from gpec.pipeline.kernel_inputs import explained_rows
from gpec.pipeline.refine import Refinement, explain_for_targets, mean_width, refine_once
from gpec.pipeline.restore import replacement_parameters, restore
from gpec.pipeline.reuse import fingerprint_model, reuse_previous_fit
from gpec.pipeline.sampling import (
    find_boundary,
    fit_similarity,
    keep_rows,
    sample_boundary,
    sample_rows_to_explain,
    typical_steps,
    with_cache,
)
from gpec.pipeline.settings import Settings
from gpec.pipeline.similar_rows import explained_intervals, similar_to_explain, some_explained_intervals
from gpec.runtime import archive
from gpec.runtime.checkpoint import read_notes
from gpec.runtime.fingerprint import fingerprint
from gpec.runtime.progress import Clock
from gpec.runtime.randomness import make_seed
from gpec.runtime.state import from_state, to_state
from gpec.similar import TypicalSteps
from gpec.typing import FloatArray

__all__ = ["GPEC", "PAPER"]

# The paper's settings; pass them as GPEC(model, explainer, **PAPER).
PAPER: dict[str, Any] = {
    "mode": "predict",
    "kernel": "weg",
    "similar": None,
    "standardize": False,
    "lam": 1.0,
    "rho": 0.1,
    "output_scale": 1.0,
    "noise": 1e-4,
    "n_neighbors": 5,
    "draw": "uniform",
    "fit_samples": "full",
}

_KIND = "GPEC"  # of a file
_WAYS = {  # to parts that not every fit has
    "calibration_": "call calibrate(X) with rows not used in fit first",
    "boundary_": "it needed no boundary or found none: call sample_boundary() first",
    "graph_": "its kernel needed no boundary or found none: fit with mode='predict' and kernel='weg'",
    "kernel_": "mode='explain' uses no Gaussian process: fit with mode='predict'",
    "posterior_": "mode='explain' uses no Gaussian process: fit with mode='predict'",
}


class GPEC(BaseEstimator):
    """An error bar on every feature attribution, for any classifier or regressor and any explainer.

    ``explain`` gives the attributions of rows, each with an interval that holds the attributions of similar rows. There
    are two ways to find these. In mode "explain" the explainer is run on the similar rows, too: intervals are exact for
    each row, and nothing needs to be calibrated. In mode "predict" a Gaussian process predicts them: ``fit`` explains
    some rows, measures how alike rows are, also along the model's decision boundary, and learns how attributions
    change; :meth:`calibrate` makes the intervals hold on average.

    Parameters
    ----------
    model : object
        Classifier with ``predict_proba``, regressor with ``predict``, ``torch.nn.Module``, ``xgboost.Booster``,
        ``lightgbm.Booster``, or a callable ``X -> (n,)`` or ``(n, c)``. For a Module or callable that predicts a
        number set ``model_output="value"``.
    explainer : str, object or callable, default "kernelshap"
        "kernelshap", "lime", "shapley_sampling", "bayeslime", "bayesshap", "cxplain", "tree", "exact", "captum:<Name>",
        an object of :mod:`gpec.explainers`, a shap explainer, or ``X -> (n, d)`` / ``(n, d, c)``, which may return
        ``(values, variance)``.
    mode : {"auto", "explain", "predict"}
        How attributions of similar rows are found: by the explainer, or by a Gaussian process. "auto" is "explain" for
        explainers that are cheap (trees, linear models, gradients; ``explainer.cheap`` says so), and "predict" for
        others, or where ``kernel``, ``task_kernel`` or ``boundary`` is set, attributions are given to ``fit``, or
        ``similar`` is None. ``diagnostics_["mode"]`` tells.
    kernel : {"auto", "weg", "rbf"} or Kernel
        How alike the attributions of two rows are. "auto" is ``Matern(Own(), Rest(), Output(), WEG())`` of
        :mod:`gpec.kernels`: the row's own value of the feature, its other features, the model's answer, and the
        distance along the boundary, which is left out where no boundary is found. The length scale of each is learned.
        For a regressor ``Effect()`` is added: the change of the answer when the feature takes other values. "weg" is
        the paper's, "rbf" its Naive-GP.
    similar : "auto", None, Similar or function
        The definition of similar rows; intervals cover the attributions of these rows. See :mod:`gpec.similar`. "auto"
        is ``NearestRows()``. None gives the paper's intervals, which promise no coverage.
    task_kernel : None, "clusters", "low_rank", matrix of shape (d, d) or {"graph": A}
        The correlation between the attributions of different features (the paper's App. C.4); None: independent.
        It needs one kernel for all features.
    groups : dict or None
        Features explained as one: ``{"address": ["street", "city"]}``. Their attributions and variances add.
    lam, rho : float, "auto" or "evidence"
        See :class:`gpec.kernels.WEG`; "evidence" learns them from the attributions.
    boundary : "auto", Sampler, BoundarySample or array
        How to sample the boundary, or the sample itself (``g.boundary_`` of an earlier fit). "auto" is
        :class:`gpec.boundary.BisectionSampler` for classes and :class:`gpec.boundary.LevelSetSampler` for a regressor.
    n_boundary : int or "auto"
        Distinct boundary points for each class, or for all level sets of a regressor. "auto" is 300 where the boundary
        is one of several terms of the kernel, and 2,000 where the kernel rests on it alone, as with "weg". No boundary
        is sampled for a kernel that does not use it; see :meth:`sample_boundary`.
    n_neighbors, n_landmarks, components
        See :meth:`gpec.geometry.GeodesicGraph.build`. With several classes "auto" is at most 800 landmarks for each.
    n_explained : int or "auto"
        Rows of ``X`` explained in ``fit``, unless ``X_explained`` is given; in mode "explain" at most 20, as a trial.
        "auto" is 200 with as many samples for each as in ``explain``; or, if the explainer can use fewer and
        ``fit_samples`` allows it, up to 300 with fewer samples, for about a quarter of the model rows.
        The Gaussian process of ``n`` rows takes about ``8 n**2`` bytes for each attribution of a row, twice as much
        if they have noise, and 1.2 GB at most (0.6 GB for 2,000 rows and 20 features without noise).
    fit_samples : int, "auto" or "full"
        Samples for each row explained in ``fit``: coalitions of "kernelshap", permutations of "shapley_sampling",
        perturbations of LIME and its Bayesian kin. Their noise is known, so more rows with fewer samples often teach
        more. "auto" explains 30 rows with the fewest samples and compares the posterior variances that each number of
        samples would give, at the same number of model rows; with a given ``n_explained`` and no budget it is "full",
        the explainer's own number, which ``explain`` always uses. ``diagnostics_["effort"]`` tells the choice.
    budget : int or None
        The most model rows that ``fit`` and ``calibrate`` may use together; ``explain`` has its own. ``fit`` takes up
        to half of it: it decides how many rows are explained, with how many samples each. A boundary is sampled only
        if it takes at most a tenth, or if ``kernel`` rests on it. What is left calibrates. With a larger budget, the
        next ``fit`` of the same rows goes on from what is known. After a stop, a ``checkpoint`` knows what was spent;
        calls that were under way are made again, beyond the budget if need be.
    draw : {"output", "uniform"}
        How these rows are drawn: half of them evenly over the range of the model's answers, so that rare classes are
        among them, or all evenly. ``explained_weights_`` says how many rows each stands for.
    background : "auto", int or rows
        Background rows of the explainer: how many to draw from ``X``, or the rows. "auto" is 100, and for trees all
        rows of ``X``, or 1,000 of them. With a ``budget``, KernelSHAP takes 5 to 100: the price of a row is in
        proportion to their number.
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
        See :class:`gpec.models.Model`.
    categorical_features : "auto", None or list of columns
        Columns that are switched, never interpolated; "auto" takes category, text and bool columns.
    random_state : int, Generator, RandomState or None
        Seed of everything random; the result does not depend on ``n_jobs``.
    batch_size : int or None
        The most rows that one call of the model gets; by default 16,384, and 1,000 for a model on a server. If it is
        given, or the model is on a server, each distinct row is asked once and its answer kept, ``n_jobs`` calls are
        under way at a time, and the answers go into a ``checkpoint`` as they come. Of other models that take more than
        a millisecond a row, calls with the same rows are not repeated.
    n_jobs : int or None
        Threads for blocks of rows, in ``fit`` as in ``explain``; -1 for one on each core. The model is then called from
        several threads at once.
    progress : "auto" or bool
        Show progress bars on a terminal, always or never.

    Attributes
    ----------
    boundary_, graph_, kernel_, posterior_
        What was learned on the way; with several classes, graph, kernel and posterior are tuples with one for each. In
        mode "explain" there is none of them, and where the kernel needs no boundary, neither ``boundary_`` nor
        ``graph_``.
    X_explained_, attributions_, explained_weights_
        The rows explained in ``fit``, their attributions, and how many rows each stands for (1 on average). If many
        attributions were given, those learned from.
    classes_, n_features_in_, feature_names_in_
        As in scikit-learn; a regressor has no classes.
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
        mode: Literal["auto", "explain", "predict"] = "auto",
        kernel: Any = "auto",
        similar: Any = "auto",
        task_kernel: Any = None,
        groups: Any = None,
        lam: float | Literal["auto", "evidence"] = "auto",
        rho: float | Literal["auto", "evidence"] = "auto",
        boundary: Any = "auto",
        n_boundary: int | Literal["auto"] = "auto",
        n_neighbors: int = 10,
        n_landmarks: int | Literal["auto"] = "auto",
        components: Literal["separate", "bridge"] = "separate",
        n_explained: int | Literal["auto"] = "auto",
        fit_samples: int | Literal["auto", "full"] = "auto",
        budget: int | None = None,
        draw: Literal["output", "uniform"] = "output",
        background: Any = "auto",
        noise: Any = "auto",
        n_resamples: int = 10,
        output_scale: float | Literal["evidence"] = "evidence",
        standardize: bool = True,
        model_output: Literal["auto", "probability", "logit", "value"] = "auto",
        threshold: float = 0.5,
        categorical_features: Any = "auto",
        random_state: Any = None,
        batch_size: int | None = None,
        n_jobs: int | None = None,
        progress: Literal["auto"] | bool = "auto",
    ) -> None:
        self.model = model
        self.explainer = explainer
        self.mode = mode
        self.kernel = kernel
        self.similar = similar
        self.task_kernel = task_kernel
        self.groups = groups
        self.lam = lam
        self.rho = rho
        self.boundary = boundary
        self.n_boundary = n_boundary
        self.n_neighbors = n_neighbors
        self.n_landmarks = n_landmarks
        self.components = components
        self.n_explained = n_explained
        self.fit_samples = fit_samples
        self.budget = budget
        self.draw = draw
        self.background = background
        self.noise = noise
        self.n_resamples = n_resamples
        self.output_scale = output_scale
        self.standardize = standardize
        self.model_output = model_output
        self.threshold = threshold
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        targets: Any = None,
        X_explained: Any = None,
        attributions: Any = None,
        attribution_variance: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Algorithm 1: sample the boundary, explain some rows, and condition the Gaussian process on them.

        In mode "explain" it learns what similar rows are, and explains a few rows to try the explainer.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Rows like those the model was trained on.
        y : ignored
        targets : rows, optional
            Rows to be explained later: half of the rows explained in ``fit`` are chosen, among these and ``X``, batch
            after batch where the posterior of the targets is widest.
        X_explained : rows, optional
            The rows to explain; by default ``n_explained`` rows of ``X``, or all of ``X`` with ``attributions``.
        attributions, attribution_variance : arrays, optional
            Attributions of ``X_explained`` that you have already, and their variance: arrays ``(n, d)`` or
            ``(n, d, c)``, DataFrames, or a ``shap.Explanation``. :meth:`explain` shows them for these rows, without any
            explainer, and predicts similar rows (mode "predict"). All are kept, but the Gaussian process learns from
            500 of them, or ``n_explained``, drawn as ``draw`` says: so time and memory stay bounded. If they and their
            base value add up to the model's answers or log-odds, ``diagnostics_["unit"]`` says so, else "as given".
            For other rows pass the explainer they came from as ``explainer``, or ask for ``attribution="posterior"``.
        checkpoint : path, optional
            A folder in which blocks of explained rows and the model's answers along the boundary are kept as they are
            done. If the call is interrupted, the same call goes on from there and gives the same result;
            ``batch_size``, ``n_jobs`` and ``progress`` may differ. Settings and rows are checked first, and the model
            by its answers to some rows; functions and objects of other packages count by their names. A seed that was
            drawn, because ``random_state`` is None or a generator, is that of the first call.
            ``diagnostics_["rows_resumed"]`` says what was there. Delete the folder when the call has finished.
        """
        previous = self._forget()
        clock = Clock()
        settings = Settings.of(self.get_params(deep=False))
        seed = seed_of(settings, checkpoint)
        inputs = check_fit_inputs(
            self.model, settings, seed, X, X_explained, attributions, attribution_variance, targets
        )
        with (
            open_fit_checkpoint(inputs, checkpoint) as cache,
            settings.asking(inputs.context.model, cache),
            ExitStack() as limit,
        ):
            model_fingerprint = fingerprint_model(inputs, cache)
            inputs, earlier = reuse_previous_fit(inputs, model_fingerprint, previous)
            execution, left = settings.execution(cache), budget_left(settings, earlier.spent)
            asked = inputs.context.model
            limit.enter_context(asked.at_most(left - asked.n_rows))
            before = earlier.spent + (0 if cache is None else cache.counting(lambda: asked.n_rows))
            sample, similarity = sample_rows_to_explain(inputs, earlier.pool_answers, execution), fit_similarity(inputs)
            with clock("boundary"):  # M
                inputs, boundary = find_boundary(inputs, earlier.boundary, model_fingerprint, execution)
            context = inputs.context
            with clock("explainer"):  # E, U
                effort = choose_effort(inputs, sample, similarity, earlier.observations, left, execution)
                sample = sample_rows_to_explain(inputs, sample.answers, execution, effort.n_rows)
                observations = explain_sample(
                    inputs, sample, earlier.observations, execution, effort.n_samples, effort.pilot
                )
            output_models: list[OutputModel] = []
            if context.mode == "predict":
                explained = explained_rows(context, sample, [context.kernel])
                observations = detect_sum(observations, explained, context.model)
                for output in range(context.model.n_outputs):
                    with clock("geometry"):  # d_geo
                        graph = build_graph(context, boundary, output, earlier.graphs)
                    with clock("kernel"):  # G, W
                        start = output_models[-1].kernel if output_models else None
                        kernel = fit_kernel(context, graph, explained, observations, output, start)
                    with clock("gp"):  # K, (K + U)^-1
                        posterior = fit_posterior(context, kernel, explained, observations, output)
                    output_models.append(OutputModel(graph, kernel, posterior))
            pool = keep_rows(inputs, similarity)
            fitted = Fitted(
                context=context,
                model_fingerprint=model_fingerprint,
                boundary=boundary,
                observations=observations,
                output_models=tuple(output_models),
                pool=pool,
                similarity=similarity,
                steps=typical_steps(context, similarity, pool),
            )
            if inputs.targets is not None:
                with clock("targets"):
                    fitted = explain_for_targets(fitted, inputs.targets, effort.n_chosen, effort.allowed, execution)
            with clock("calibration"):
                fitted = loo_calibrate(fitted, execution, n_pairs(effort.n_rows, settings))
            context.model.require_repeatable(model_fingerprint.rows, model_fingerprint.answer)
            spent = before + context.model.n_rows
            fitted = replace(fitted, fingerprints=earlier.fingerprints, spent=spent)
        self._keep(fitted)
        rows_resumed = cache.rows_used if cache is not None else {}
        self.diagnostics_ = {
            **fitted.diagnostics(clock.seconds),
            "effort": effort.describe(),
            "spent": fitted.spent,
            "rows_resumed": rows_resumed,
        }
        return self

    def explain(
        self,
        X: Any,
        *,
        attribution: Literal["explainer", "posterior"] = "explainer",
        attributions: Any = None,
        confidence_level: float = 0.95,
        n_similar_explained: int | None = None,
        groups: Any = None,
        keep_similar: bool = True,
        budget: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Explanation:
        """Algorithm 2: attributions of the rows ``X`` with their uncertainty.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Rows to explain. For a Dask DataFrame or array the result is a Dask DataFrame with the lines of
            :meth:`Explanation.to_frame`, computed when asked for; see :func:`gpec.distributed.explain`.
        attribution : {"explainer", "posterior"}
            "explainer" shows the explainer's own values; their intervals are about *similar rows*: how far the
            explanation holds around the row. "posterior" shows the posterior mean and runs no explainer; its intervals
            are about *the value*: what the explainer would answer. ``e.statement()`` says it in full.
        attributions : array, DataFrame or shap.Explanation, optional
            The explainer's attributions of ``X``, if you have them: they are shown, and it is not run on ``X``. Rows
            whose attributions were given to :meth:`fit` need none.
        confidence_level : float
            Level of the bounds.
        n_similar_explained : int, optional
            Of how many similar rows of each row the explainer is run: those that the kernel knows least. The
            others are predicted, also from these. Each further one makes intervals follow the row better. By default
            all in mode "explain", and in mode "predict" as many as in :meth:`calibrate`, or none. With all of them
            intervals are exact for each row, in both modes.
        groups : array of labels or dict of masks, optional
            The groups of these rows, where :meth:`calibrate` was given labels or masks; a label that it was not given
            stands for no group. All other groups are known from the rows and the model's answers.
        keep_similar : bool
            Where all similar rows are explained: keep their attributions (``e.similar_values``), up to 512 MB of them.
            Without them bounds are known at this level, 95% and 80% only.
        budget : int, optional
            The most model rows that this call may use: if all samples would need more, rows are explained with fewer,
            and the explainer's variance is larger.
        checkpoint : path, optional
            A folder in which blocks of rows are kept as they are done. If the call is interrupted, the same call goes
            on from there and gives the same result. Model, fit and rows are checked first. Delete the
            folder when the call has finished.
        """
        if attributions is not None and (attribution == "posterior" or is_dask(X)):
            what = "attribution='posterior' predicts them" if attribution == "posterior" else "X is a Dask collection"
            raise InputError(f"attributions are given, but {what}; leave them out.")
        if is_dask(X):
            lazy: Explanation = explain_lazily(
                self, X, attribution, confidence_level, n_similar_explained, groups, checkpoint, budget
            )
            return lazy
        fitted = self._require_fitted()
        settings = Settings.of(self.get_params(deep=False))  # n_jobs and progress may have been set since fit
        check_choice("attribution", attribution, ("explainer", "posterior"))
        level = check_level(confidence_level)
        check_choice("keep_similar", keep_similar, (True, False))
        n_similar = similar_to_explain(fitted, attribution, level, n_similar_explained)
        Z, labels = fitted.encode(X), row_labels(X)
        masks = read_later(None if n_similar == "all" else fitted.calibration.of(attribution), groups, len(Z))
        n_samples = None
        if budget is not None:
            check_count("budget", budget)
        if n_similar:
            fitted.require_explainer()
        if budget is not None and (attributions is None or n_similar):
            n_samples = explanation_effort(fitted, Z, budget, attribution, n_similar)
            fitted = with_samples(fitted, n_samples)
        clock, rows_before = Clock(), fitted.context.model.n_rows
        model, more = (
            fitted.context.model,
            {"the kind of attribution": str(attribution), "n_similar_explained": str(n_similar)},
        )
        own = None if attributions is None else read_answer(fitted, attributions, Z)
        if own is not None:
            more["the attributions"] = fingerprint(vars(own))
        with (
            open_checkpoint(checkpoint, "explain", fitted, Z, more) as cache,
            settings.asking(model, cache),
            model.at_most(budget),
        ):
            execution = settings.execution(cache)
            with clock("explainer"):  # E
                run = attribution == "explainer" and own is None
                answer = explain_rows(fitted, Z, execution) if run else None
            with clock("gp" if fitted.context.mode == "predict" else "similar rows"):  # k (K + U)^-1 k
                rows = fitted.rows(Z, n_jobs=execution.n_jobs, outputs=fitted.similarity is not None)
                if own is not None:
                    answer = require_unit_of_fit(fitted, own, rows)
                fitted = in_their_groups(fitted, rows, masks)
                if fitted.similarity is None:
                    found = latent_intervals(fitted, rows, answer, execution)
                elif answer is None:
                    found = value_intervals(fitted, rows, execution)
                elif n_similar == "all":
                    found = explained_intervals(
                        fitted, fitted.similarity, Z, answer, level, execution, keep=keep_similar
                    )
                else:
                    found = some_explained_intervals(fitted, fitted.similarity, rows, answer, n_similar, execution)
        given = fitted.observations.given
        diagnostics = {
            "given": own is not None or (answer is not None and given is not None and bool(given.contain(Z).all())),
            **{key: self.diagnostics_[key] for key in ("version", "seed", "mode", "noise", "unit", "settings")},
            "attribution": attribution,
            "model_rows": model.n_rows - rows_before,
            "samples": n_samples or "full",
            "seconds": clock.seconds,
            "clamped": found.n_clamped,
            "rows_resumed": cache.rows_used if cache is not None else {},
        }
        return make_explanation(fitted, rows, found, level, labels, diagnostics)

    __call__ = explain

    def calibrate(
        self,
        X: Any,
        *,
        n: int | None = None,
        groups: Any = None,
        attributions: Any = None,
        n_similar_explained: int = 0,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Calibrate the intervals on rows not used in ``fit``, so that their coverage is guaranteed.

        Each row is explained, and so is one row similar to it. Both promises are calibrated for each feature and output
        by split conformal prediction: over new rows like these (and their similar rows), intervals at any level hold at
        least that often. With ``n`` or ``groups`` they hold so often in each group of rows, too.

        Parameters
        ----------
        X : rows
            Rows like those to be explained later, not among those explained in ``fit``; 19 are enough for 95%, some
            hundred make intervals no wider than they need be. With a ``budget``, as many of them are used as it allows.
        n : int, optional
            Draw up to so many of the rows, so that each group has enough of them, and as many as the others: 19, 39,
            59, ... The model is asked for all rows of ``X``. Groups are the predicted classes, the lowest and the
            highest 2% of the answers of a model with one output, and ``groups``. Those with fewer than 19 rows in
            ``X`` have no quantile of their own, unless you named them: then it is an error.
        groups : column, list of columns, array of labels or dict of masks, optional
            Further groups; they may overlap, and a row takes the widest interval of its groups. The values of a column
            are known of later rows, too. Labels (one for each row; missing: no group) and boolean masks by name must
            be given to :meth:`explain` again, for its rows.
        attributions : array, optional
            Attributions of ``X`` computed elsewhere; they serve the promise of the value only.
        n_similar_explained : int
            Of how many similar rows of each row ``explain`` will run the explainer; so many, and one more, are
            explained here.
        checkpoint : path, optional
            A folder in which blocks of rows are kept as they are done, as for :meth:`explain`.
        """
        fitted = self._require_fitted()
        if fitted.context.mode == "explain":
            warnings.warn(
                "There is nothing to calibrate: in mode 'explain' the explainer is run on all similar rows, and the "
                "intervals are exact for each row.",
                CalibrationWarning,
                stacklevel=2,
            )
            return self
        settings = Settings.of(self.get_params(deep=False))
        Z = fitted.encode(X)
        given = None if attributions is None else read_answer(fitted, attributions, Z)
        check_some_explained(fitted, n_similar_explained, given)
        asked, draw = read_asked(n, groups, fitted.context.schema, len(Z)), None
        n_samples, model, rows_before = None, fitted.context.model, fitted.context.model.n_rows
        budget = None if given is not None else settings.budget
        if budget is not None and asked is None:
            begun = {} if checkpoint is None else read_notes(checkpoint)
            Z, n_samples = calibration_effort(fitted, Z, budget, begun, n_similar_explained)
        notes = {"n_rows": len(Z), "n_samples": n_samples, "n_similar_explained": n_similar_explained}
        more = {} if asked is None else {"n and groups": asked.identity}
        with (
            open_checkpoint(checkpoint, "calibrate", fitted, Z, more, notes) as cache,
            settings.asking(model, cache),
        ):
            before = fitted.spent + (0 if cache is None else cache.counting(lambda: model.n_rows - rows_before))
            execution = settings.execution(cache)
            with model.at_most(budget_left(settings, fitted.spent)):  # what a stop has lost is asked for again
                if asked is not None:
                    draw = draw_rows(fitted, Z, with_cache(model, "pool", execution).outputs(Z), asked)
                    paid = replace(fitted, spent=fitted.spent + len(Z))
                    Z, given = Z[draw.rows], given and given.map(lambda array: array[draw.rows])
                    if budget is not None:
                        _, n_samples = calibration_effort(paid, Z, budget, {}, n_similar_explained, whole=True)
                calibration = calibrate_on(
                    with_samples(fitted, n_samples), Z, given, n_similar_explained, draw, execution
                )
        spent = before + model.n_rows - rows_before
        self._fitted = replace(fitted, calibration=calibration, spent=spent)
        self.diagnostics_ = {**self.diagnostics_, "spent": spent}
        return self

    @property
    def calibration_(self) -> pd.DataFrame:
        """The groups of rows that :meth:`calibrate` checked, one line for each and one for all rows.

        Columns: ``group``; ``rows`` that calibrate it; ``rows_in_pool``, from which they were drawn; and ``holds``, the
        coverage of 95% intervals that this one set of rows gives with 90% certainty (the 10th percentile: 88.6% for 19
        rows, 92.2% for 100; on average over sets of rows it is 95%).
        """
        scores = self._require_fitted().calibration.value
        if scores is None or not scores.fresh:
            raise AttributeError("calibration_")  # __getattr__ says why
        return table_of(scores)

    def cost(self, X: Any, *, n_similar_explained: int | None = None) -> pd.DataFrame:
        """What ``fit``, ``calibrate`` and ``explain`` cost for the rows ``X``, before they run.

        Explainer runs and model rows follow from the settings. Seconds follow from a short timing: model and explainer
        are run on 1, 4, 16, ... rows of ``X`` until this takes 0.2 seconds, at most on 1,000 rows. It leaves no trace:
        this object stays as it is, fitted or not.

        Parameters
        ----------
        X : rows
            If this object is not fitted, rows as for :meth:`fit`. If it is, rows to explain or to calibrate on.
        n_similar_explained : int, optional
            That of :meth:`calibrate` and :meth:`explain`; by default as calibrated, or 0.

        Returns
        -------
        DataFrame
            One line for each step of ``fit`` and for all of it, "fit: total", or what it has cost if it is done; then
            "calibrate" and "explain" for all rows of ``X``. A budget limits "calibrate"; mode "explain" needs none: 0.
            Columns:

            - ``explainer_runs``: rows explained, counted in each run of ``noise="resample"``.
            - ``model_rows``: rows that the model predicts; missing if the explainer does not tell, as functions do not.
              Those of the boundary are about right; too many if the model predicts one class only.
            - ``seconds`` of model and explainer with ``n_jobs`` threads. The Gaussian process of mode "predict" takes
              seconds more, and minutes with thousands of explained rows.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> import gpec
        >>> X, y = load_iris(return_X_y=True)
        >>> g = gpec.GPEC(LogisticRegression().fit(X, y == 2), n_explained=50, background=20, random_state=0)
        >>> g.cost(X)[["explainer_runs", "model_rows"]]
                        explainer_runs  model_rows
        fit: draw                    0         190
        fit: boundary                0        8485
        fit: explainer              50       12451
        fit: kernel                  0          50
        fit: check                  40       11018
        fit: total                  90       32195
        calibrate                  300       78613
        explain                    150       38944
        """
        settings = Settings.of(self.get_params(deep=False))
        if n_similar_explained is not None:
            check_count("n_similar_explained", n_similar_explained, least=0)
        if "_fitted" in vars(self):
            fitted = self._fitted
            with settings.asking(fitted.context.model), fitted.context.model.asked_anew():
                return cost_of_fitted(fitted, self.diagnostics_, fitted.encode(X), settings.n_jobs, n_similar_explained)
        seed = make_seed(deepcopy(settings.random_state))  # a generator must not move on
        inputs = check_fit_inputs(self.model, settings, seed, X)
        with inputs.context.model.asked_anew():
            return cost_of_unfitted(inputs, settings.n_jobs, n_similar_explained or 0)

    def sample_boundary(self) -> Self:
        """Sample the decision boundary, or level sets, if ``fit`` did not need it; ``boundary_`` has the points.

        Raises
        ------
        BoundaryNotFoundError
            If the model predicts only one class for the rows of ``fit``; ``threshold`` may be too high or too low.
        """
        fitted = self._require_fitted()
        if fitted.boundary is None:
            context = fitted.context
            sampler = make_sampler(self.boundary, context.schema, context.model.kind)
            settings = Settings.of(self.get_params(deep=False))
            with settings.asking(context.model):
                pool, known = fitted.pool, fitted.model_fingerprint
                found = sample_boundary(context, sampler, pool, known, settings.execution())
            self._keep(replace(fitted, boundary=found))
        return self

    def similar_rows(self, X: Any) -> Any:
        """The rows similar to each row of ``X``, as ``X`` looks: those of the first row first, ``K`` for each row.

        They are the rows that intervals of ``explain`` are about; explaining them checks these intervals.
        """
        fitted = self._require_fitted()
        similar = fitted.require_similarity().rows(fitted.encode(X))
        return fitted.context.schema.decode(similar.reshape(-1, similar.shape[2]))

    def similar_steps(self, X: Any = None) -> pd.DataFrame:
        """What similar means in the units of the data: how far similar rows typically lie from a row.

        Parameters
        ----------
        X : rows, optional
            Rows to measure it at; by default rows of ``fit``. At most 200 rows are looked at.

        Returns
        -------
        DataFrame
            One line for each feature. Columns:

            - ``step``: median absolute change in those similar rows in which the number changes; for dates in days.
              Missing for categories and 0/1 columns, which switch.
            - ``share``: share of similar rows in which the feature changes.
            - ``words``: both as the statement says them: "±3", "±2,000 in 12%", "switches in 22%", "unchanged".

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> import gpec
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> model = DecisionTreeClassifier(random_state=0).fit(X, y == 1)
        >>> g = gpec.GPEC(model, "tree", random_state=0).fit(X)
        >>> g.similar_steps().loc[["alcohol", "proline"], "words"].tolist()
        ['±0.2', '±69']
        """
        fitted = self._require_fitted()
        similarity, schema = fitted.require_similarity(), fitted.context.schema
        steps = fitted.steps if X is None else None
        if steps is None:
            steps = TypicalSteps.measure(schema, similarity, fitted.pool if X is None else fitted.encode(X))
        return steps.frame(schema)

    def refine(self, X: Any, n: int = 50, target: float | None = None) -> Self:
        """Explain the rows that narrow the intervals of ``X`` most, and learn from them.

        Rows are chosen among ``X`` and the rows given to ``fit``, or a sample of these if they are many. The posterior
        is conditioned on them at the same scales and lengths; scores are computed anew and are approximate until
        :meth:`calibrate` is called again. ``refinement_`` says what was gained.

        Parameters
        ----------
        X : rows
            Rows whose intervals of the value (``attribution="posterior"``) are to become narrower.
        n : int
            How many rows to explain at most.
        target : float, optional
            A mean width at which to stop, in units of the attributions; rows are explained ten at a time until then.
        """
        fitted = self._require_fitted()
        fitted.require_prediction("refine")
        fitted.require_explainer()
        settings = Settings.of(self.get_params(deep=False))
        execution = settings.execution()
        check_count("n", n)
        if target is not None:
            check_positive("target", target)
        Z = fitted.encode(X)
        new: list[FloatArray] = []
        model, earlier, clock = fitted.context.model, self.diagnostics_, Clock(self.diagnostics_["seconds"])
        n_rows, n_calls = earlier["model_rows"] - model.n_rows, earlier["model_calls"] - model.n_calls
        with clock("refine"), settings.asking(model):
            rows = fitted.rows(Z, n_jobs=execution.n_jobs)
            before = after = mean_width(fitted, rows, execution)
            while len(new) < n and (target is None or after > target):
                most = n - len(new) if target is None else min(10, n - len(new))
                fitted, chosen = refine_once(fitted, Z, most, execution)
                if not len(chosen):
                    break
                new.extend(chosen)
                after = mean_width(fitted, rows, execution)
        self._keep(fitted)
        spent = {"model_rows": n_rows + model.n_rows, "model_calls": n_calls + model.n_calls}
        self.diagnostics_ = {**earlier, **fitted.diagnostics_of_rows(), **spent, "seconds": clock.seconds}
        X_refined = fitted.context.schema.decode(np.array(new).reshape(len(new), Z.shape[1]))
        self.refinement_ = Refinement(X_refined, before, after)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything but the model and the explainer to a file; no pickle."""
        archive.write(path, _KIND, to_state(SavedGPEC(self._require_fitted().saved(), self.diagnostics_)))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        model: Any,
        explainer: Any = None,
        similar: Any = None,
        max_bytes: int = archive.MAX_BYTES,
    ) -> GPEC:
        """Read what :meth:`save` wrote, and check that ``model`` is the model that was fitted.

        ``explainer`` is needed for ``attribution="explainer"`` unless it was given by name, ``similar`` if it was a
        function. The file may come from anywhere: reading it runs no code, all that it holds is checked, and one that
        takes more than ``max_bytes`` of memory is refused.
        """
        saved = from_state(SavedGPEC, archive.read(path, _KIND, max_bytes), f"{path}: GPEC")
        fitted = saved.fitted
        try:
            parameters = {
                **replacement_parameters(fitted),
                **fitted.settings,
                "mode": fitted.mode,
                "random_state": fitted.seed,
            }
            if explainer is not None:
                parameters["explainer"] = explainer
            if similar is not None:
                parameters["similar"] = similar
            g = cls(model, **parameters)
            try:
                settings = Settings.of(g.get_params(deep=False))
            except GPECError as error:
                raise CorruptFileError(f"{path}: GPEC.fitted.settings cannot be used: {str(error)[:300]}") from error
            n = len(fitted.observations.rows)
            archive.require_memory(path, 24 * n * min(n, LARGEST_RANK), max_bytes)  # of the covariance
            g._keep(replace(restore(fitted, model, settings), spent=int(saved.diagnostics.get("spent", 0))))
        except GPECError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise CorruptFileError(f"{path} lacks or garbles part of a fitted GPEC: {error!r}.") from error
        g.diagnostics_ = saved.diagnostics
        return g

    def __sklearn_clone__(self) -> GPEC:
        shared = {"model", "explainer", "boundary"}  # by reference: the user's fitted model stays fitted
        parameters = self.get_params(deep=False)
        return type(self)(
            **{name: value if name in shared else clone(value, safe=False) for name, value in parameters.items()}
        )

    def _forget(self) -> Fitted | None:
        """Take away all that a fit learned, and return it."""
        earlier = vars(self).get("_fitted")
        for name in [name for name in vars(self) if name.endswith("_") or name == "_fitted"]:
            delattr(self, name)
        return earlier

    def _keep(self, fitted: Fitted) -> None:
        context, output_models, seen = fitted.context, fitted.output_models, fitted.observations
        self._fitted = fitted
        learned = {"boundary": (fitted.boundary,)}
        for name in ("graph", "kernel", "posterior"):
            learned[name] = tuple(getattr(output_model, name) for output_model in output_models)
        for name, each in learned.items():
            if each and each[0] is not None:
                setattr(self, f"{name}_", each if len(each) > 1 else each[0])
        self.X_explained_ = context.schema.decode(seen.rows)
        self.explained_weights_ = seen.sample.weights.copy()
        # copies: what users do with them must not reach a later fit
        self.attributions_ = replace(seen.attribution, variance=seen.U).squeeze_single_output().map(np.copy)
        if not context.model.is_regressor:
            self.classes_ = context.model.classes
        self.n_features_in_ = context.schema.n_features
        if context.schema.labels is not None:
            self.feature_names_in_ = np.array(context.schema.names, dtype=object)

    def __getattr__(self, name: str) -> Any:
        """Say why a fitted GPEC lacks something that others have; called only for attributes that do not exist."""
        if "_fitted" in vars(self) and name in _WAYS:
            raise MissingPartError(f"This fit has no {name}; {_WAYS[name]}.")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _require_fitted(self) -> Fitted:
        if "_fitted" not in vars(self):
            raise NotFittedError("This GPEC is not fitted yet; call fit(X) first.")
        return self._fitted
