"""Dependent features (App. C.4): the attributions of all features as one vector-valued Gaussian process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from scipy.sparse.csgraph import connected_components

from gpec._validation import check_choice, check_finite_array
from gpec.data import Rows
from gpec.errors import InputError, ParameterTypeError
from gpec.gp._gram import Gram
from gpec.gp._linalg import FlatMean, JointFlatMean, Kronecker
from gpec.gp._task_evidence import JointEvidence, Learned, learn_matrix, mix, penalty_of_parameter
from gpec.gp.evidence import Parameters, fit_parameters
from gpec.gp.posterior import ExactPosterior
from gpec.kernels import Kernel
from gpec.runtime.randomness import stream
from gpec.runtime.state import Limits, Shape
from gpec.typing import FloatArray, IntArray

_MOST_ROWS = 5_000
_EVIDENCE_ROWS = 1_000
_LARGEST = 6_000  # rows times features whose noise varies over the rows: their matrices take 0.6 GB
_ROUNDING = 1e-10  # of eigenvalues and asymmetry, relative to the largest entry
_LARGEST_WEIGHT = 1e8  # of a graph; beyond it rounding spoils the inverse


@dataclass(frozen=True, eq=False)
class Tasks:
    """How the attributions of features depend on each other.

    Attributes
    ----------
    matrix : array of shape (d, d)
        The correlation ``T`` between features, given or learned.
    weight : float
        ``w``: the correlation in use is ``(1 - w) I + w T``. 0 means independent features.
    log_evidence, log_evidence_independent : float
        Log marginal likelihood of the attributions with it and with independent features, in nats.
    """

    matrix: Annotated[FloatArray, Shape("feature", "feature")]
    weight: Annotated[float, Limits(0, 1)]
    log_evidence: float
    log_evidence_independent: float

    @property
    def mixed(self) -> FloatArray:
        """The correlation in use."""
        return mix(self.matrix, self.weight)


class TaskPosterior(ExactPosterior):
    r"""Exact posterior of dependent features.

    The attributions of all features at all rows have the covariance ``S (x) K + diag(noise)`` with one kernel matrix
    ``K`` and ``S = D T D``: ``T`` is the correlation between features, ``D`` has the roots of their output scales. An
    unknown mean of each feature is integrated out.

    If the noise is the same at all rows, the cost is that of independent features. Otherwise a matrix is factorised
    whose size is the number of rows times features, which must not exceed 6,000. Features that ``T`` does not link,
    directly or through others, are separate.

    Parameters
    ----------
    kernel, rows, Y, U, parameters
        See :class:`Posterior`. The kernel must be the same for all features.
    tasks : Tasks
        The dependence of the features.
    gram : Gram or None
        The kernel matrix, if it was computed before.
    """

    def __init__(
        self,
        kernel: Kernel,
        rows: Any,
        Y: FloatArray,
        U: FloatArray,
        parameters: Parameters,
        *,
        tasks: Tasks,
        gram: Gram | None = None,
    ) -> None:
        require_one_kernel(kernel)
        self.tasks = tasks
        self._gram = Gram(kernel, Rows.of(rows), None) if gram is None else gram
        varies = parameters.scale > 0
        self._T = np.where(np.outer(varies, varies), tasks.mixed, np.eye(len(varies)))
        super().__init__(kernel, self._gram.rows, Y, U, parameters, grams=[(np.arange(len(varies)), self._gram)])

    def _alike(self, h: FloatArray) -> list[IntArray]:
        """Features that depend on each other, directly or through others; then independent ones."""
        _, label = connected_components(self._T != 0, directed=False)
        members = [np.flatnonzero(label == i) for i in range(label.max() + 1)]
        linked = [features for features in members if len(features) > 1]
        for features in linked:  # noise of one feature makes the others uncertain
            self._noisy[features] = self._noisy[features].any()
        alone = np.setdiff1d(np.arange(len(label)), np.concatenate([[], *linked]))
        return linked + [alone[columns] for columns in super()._alike(h[:, alone])]

    def _conditioned(self, features: IntArray, gram: Gram, h: FloatArray) -> FlatMean:
        T, free_mean = self._T[np.ix_(features, features)], self.parameters.free_mean
        if not np.triu(T, 1).any():
            return super()._conditioned(features, gram, h)
        if not np.ptp(h, axis=0).any():
            return Kronecker(gram.spectrum, T, h[0], free_mean)
        if h.size > _LARGEST:
            raise InputError(
                f"task_kernel takes at most {_LARGEST:,} rows times dependent features where the noise differs "
                f"between rows, got {len(h):,} x {len(T):,} = {h.size:,}; explain fewer rows, set noise to a "
                "number or 'none', or use task_kernel=None."
            )
        return JointFlatMean(gram.matrix, T, h, free_mean)

    def _largest_eigenvalue(self, features: IntArray, gram: Gram) -> float:
        T = self._T[np.ix_(features, features)]
        return super()._largest_eigenvalue(features, gram) * float(np.linalg.eigvalsh(T).max())


def make_task_posterior(
    kernel: Kernel,
    X: Any,
    Y: FloatArray,
    U: FloatArray,
    task_kernel: Any,
    output_scale: float | Literal["evidence"],
    seed: int,
) -> TaskPosterior:
    """The posterior of dependent features given attributions ``Y (N, d)`` of noise variance ``U`` at the rows ``X``.

    With ``output_scale="evidence"``, scales and nuggets are those of independent features, learned from at most 1,000
    rows. Then only the correlation in a task matrix is used, because each feature has its own scale. The weight of the
    correlation is learned by the marginal likelihood of all features together. The weight is 0 unless the correlation
    adds more to the log marginal likelihood than a penalty for its parameters and the choice of clusters.

    With a number, the covariance is ``output_scale * B (x) K`` for a given matrix ``B``, as in App. C.4.
    """
    rows, (N, d) = Rows.of(X), Y.shape
    require_one_kernel(kernel)
    given = check_task_kernel(task_kernel, d)
    if N > _MOST_ROWS:
        raise InputError(
            f"task_kernel takes at most {_MOST_ROWS} explained rows, got {N}; explain fewer or use task_kernel=None."
        )
    gram = Gram(kernel, rows)
    some = np.sort(stream(seed, "task rows").permutation(N)[:_EVIDENCE_ROWS])
    sample, y, u = gram if len(some) == N else Gram(kernel, rows[some]), Y[some], U[some]
    diagonal = np.ones(d) if given is None else np.diag(given)
    T = None if given is None else _correlation(given)
    if not isinstance(output_scale, str):
        parameters = Parameters(float(output_scale) * diagonal, np.zeros(d), free_mean=False)
    else:
        parameters = fit_parameters([(np.arange(d), sample)], y, u, average=True)
    tasks = _learn_tasks(task_kernel, T, JointEvidence(sample, y, u, parameters), d, isinstance(output_scale, str))
    return TaskPosterior(kernel, rows, Y, U, parameters, tasks=tasks, gram=gram)


def check_task_kernel(task_kernel: Any, d: int, names: Sequence[str] | None = None) -> FloatArray | None:
    """The matrix ``(d, d)`` of ``task_kernel``; None if it is learned, or if there is none.

    Parameters
    ----------
    task_kernel : None, "clusters", "low_rank", array of shape (d, d) or {"graph": array of shape (d, d)}
        A matrix must be symmetric and positive semi-definite, with a diagonal greater than 0. For a graph with
        adjacency ``A >= 0`` and Laplacian ``L`` it is ``(I + L)^-1``; loops do not matter.
    d : int
        The number of features.
    names : sequence of str, or None
        Their names. A DataFrame is put into their order, and messages use them.

    Raises
    ------
    InputError, ParameterTypeError
        If it is none of these.

    Examples
    --------
    >>> from gpec.gp.tasks import check_task_kernel
    >>> check_task_kernel({"graph": [[0, 1], [1, 0]]}, 2).round(3)
    array([[0.667, 0.333],
           [0.333, 0.667]])
    """
    if task_kernel is None:
        return None
    if isinstance(task_kernel, str):
        check_choice("task_kernel", task_kernel, ("clusters", "low_rank"))
        return None
    if not hasattr(task_kernel, "__len__"):
        raise ParameterTypeError(
            f"task_kernel={task_kernel!r} must be None, 'clusters', 'low_rank', a ({d}, {d}) matrix or "
            "{'graph': adjacency}."
        )
    if not isinstance(task_kernel, dict):
        return _check_matrix(_square("task_kernel", task_kernel, d, names), names)
    if list(task_kernel) != ["graph"]:
        raise InputError(f"task_kernel has the keys {list(task_kernel)}; a graph is stated as {{'graph': adjacency}}.")
    A = _square("task_kernel['graph']", task_kernel["graph"], d, names)
    if A.min() < 0:
        i, j = np.unravel_index(int(A.argmin()), A.shape)
        raise InputError(
            f"task_kernel['graph'] has {A[i, j]:.6g} between features {_name(i, names)} and {_name(j, names)}; "
            "the weights of a graph must be at least 0."
        )
    if A.max() > _LARGEST_WEIGHT:
        raise InputError(
            f"task_kernel['graph'] has a weight of {A.max():.3g}; the weights of a graph must be at most "
            f"{_LARGEST_WEIGHT:g}, which makes two features all but the same."
        )
    inverse = np.linalg.inv(np.eye(d) + np.diag(A.sum(axis=1)) - A)
    return np.asarray((inverse + inverse.T) / 2)


def _square(argument: str, value: Any, d: int, names: Sequence[str] | None) -> FloatArray:
    """A symmetric matrix of shape ``(d, d)``."""
    if names is not None and hasattr(value, "columns") and hasattr(value, "reindex"):
        if sorted(map(str, value.columns)) != sorted(names) or sorted(map(str, value.index)) != sorted(names):
            raise InputError(f"{argument} must have the names of the features as its index and columns: {list(names)}.")
        value = value.set_axis(map(str, value.index)).set_axis(map(str, value.columns), axis=1)
        value = value.reindex(index=list(names), columns=list(names))
    B = check_finite_array(argument, value)
    if B.shape != (d, d):
        raise InputError(f"{argument} has shape {B.shape} but there are {d} features; it must have shape ({d}, {d}).")
    off = np.abs(B - B.T)
    if off.max() > _ROUNDING * np.abs(B).max():
        i, j = np.unravel_index(int(off.argmax()), off.shape)
        raise InputError(
            f"{argument} has {B[i, j]:.6g} from feature {_name(i, names)} to {_name(j, names)} and {B[j, i]:.6g} back; "
            "it must be symmetric."
        )
    return (B + B.T) / 2


def _check_matrix(B: FloatArray, names: Sequence[str] | None) -> FloatArray:
    """``B`` if it is a covariance."""
    diagonal = np.diag(B)
    if diagonal.min() <= 0:
        f = int(diagonal.argmin())
        raise InputError(
            f"task_kernel has {diagonal[f]:.6g} on its diagonal at feature {_name(f, names)}; all must be above 0."
        )
    least = float(np.linalg.eigvalsh(_correlation(B))[0])
    if least < -_ROUNDING * len(B):
        raise InputError(
            f"task_kernel is not positive semi-definite: as a correlation its least eigenvalue is {least:.3g}; "
            "bring its entries off the diagonal closer to 0."
        )
    return B


def _correlation(B: FloatArray) -> FloatArray:
    root = np.sqrt(np.diag(B))
    return B / root[:, None] / root


def _name(f: Any, names: Sequence[str] | None) -> str:
    return str(int(f)) if names is None else repr(names[int(f)])


def require_one_kernel(kernel: Kernel) -> None:
    """Refuse a kernel that differs by feature."""
    if kernel.varies_by_feature:
        raise InputError(
            "task_kernel needs one kernel for all features, so it excludes Own; "
            "choose a kernel without it or use task_kernel=None."
        )


def _learn_tasks(task_kernel: Any, T: FloatArray | None, evidence: JointEvidence, d: int, free_scale: bool) -> Tasks:
    """The correlation between features and its weight by marginal likelihood; ``T`` is the one given, if any."""
    independent = evidence(np.eye(d))
    if task_kernel is None:
        return Tasks(np.eye(d), 0.0, independent, independent)
    if T is not None and not free_scale:
        return Tasks(T, 1.0, evidence(T), independent)
    learned = learn_matrix(task_kernel, evidence, d) if T is None else Learned(T, penalty_of_parameter(evidence))
    weight, found = evidence.best_weight(learned.matrix)
    if found - independent <= learned.penalty:
        weight, found = 0.0, independent
    return Tasks(learned.matrix, weight, found, independent)
