"""Boundary points of a neural network, between rows and adversarial examples (App. D.1 of the paper)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np

from gpec._validation import check_choice, check_count, check_finite_array, check_positive
from gpec.boundary._attack import AttackedModule
from gpec.boundary._search import Collection, SearchScale, bisect
from gpec.boundary.base import LEAST_POINTS, AttackReport, BoundarySample, Sampler, require_every_class
from gpec.boundary.bisection import refuse_values
from gpec.errors import BoundaryNotFoundError, InputError, ParameterTypeError
from gpec.models import Model
from gpec.models._torch import is_module
from gpec.runtime.progress import progress_bar
from gpec.runtime.randomness import stream
from gpec.typing import FloatArray, IntArray

_FIRST_ROWS = 20  # for the first call of a model, which gives the number of classes
# The paper's list, without 0 (no attack) and the radius it names twice.
_RADII = (2e-4, 5e-4, 8e-4, 1e-3, 1.5e-3, 2e-3, 3e-3, 1e-2, 1e-1, 3e-1, 5e-1, 1.0)


@dataclass(eq=False, repr=False)
class AdversarialSampler(Sampler):
    """Sample the decision boundary of a ``torch.nn.Module`` by adversarial attacks, then bisection.

    In hundreds of dimensions, pairs of data rows are far apart and give boundary points far from the data. An
    adversarial partner is close to its row, and so is the boundary point between them.

    For each class ``y``: ``n_untargeted`` rows predicted ``y`` are attacked away from it, and ``n_targeted`` rows of
    every other class towards it. The partner at the smallest successful radius is used. Rows for which every radius
    fails are dropped and counted in ``attacks`` of the sample. A point between two classes counts for both.

    Parameters
    ----------
    n_untargeted, n_targeted : int
        Rows attacked; the paper uses 500 and 50.
    norm : {"linf", "l2"}
        The ball of an attack.
    radii : sequence of float
        Radii tried, in units of the width of ``bounds``. The smallest successful one is found by bisection of the list,
        because an attack that succeeds at one radius nearly always succeeds at a greater one.
    n_steps : int
        Gradient steps of an attack.
    bounds : "data" or pair
        Least and greatest values of an input. "data": over all pixels for images, of each column for tables. For
        flattened images pass them, for instance ``(0, 1)``.
    n_approach : int
        Steps that then move a partner to the boundary point nearest to its row (as DeepFool does); the paper uses 0.
    tolerance : float
        Longest final bracket of the bisection, in standardised units; without standardisation, as a fraction of the
        spread of the data.
    """

    n_untargeted: int = 500
    n_targeted: int = 50
    _: KW_ONLY
    norm: Literal["linf", "l2"] = "linf"
    radii: Any = _RADII
    n_steps: int = 40
    bounds: Any = "data"
    n_approach: int = 5
    tolerance: float = 1e-6

    def check(self) -> None:
        check_count("n_untargeted", self.n_untargeted)
        check_count("n_targeted", self.n_targeted)
        check_choice("norm", self.norm, ("linf", "l2"))
        radii = check_finite_array("radii", self.radii)
        if radii.ndim != 1 or radii.size == 0 or (radii <= 0).any():
            raise InputError(f"radii={self.radii!r} must be a list of numbers greater than 0.")
        check_count("n_steps", self.n_steps)
        check_count("n_approach", self.n_approach, least=0)
        check_positive("tolerance", self.tolerance)
        if isinstance(self.bounds, str):
            check_choice("bounds", self.bounds, ("data",))
        elif np.ndim(self.bounds) == 0 or len(self.bounds) != 2:
            raise InputError(f"bounds={self.bounds!r} must be 'data' or a pair (least, greatest).")

    def draw(
        self, model: Model, Z: FloatArray, n_boundary: int, *, seed: int, progress: Literal["auto"] | bool = "auto"
    ) -> BoundarySample:
        """At most ``n_boundary`` points of each class's boundary, one for each successful attack."""
        self.check()
        refuse_values(self, model)
        _require_gradients(model, Z)
        rows_before = model.n_rows
        rng = stream(seed, "attacked rows")
        model.labels(Z[:_FIRST_ROWS])
        # enough to find every class among them, unless a class is rare
        enough = max(20_000, 20 * (self.n_untargeted + self.n_targeted) * int(model.n_classes or 2))
        inspected = Z[rng.permutation(len(Z))[:enough]]
        chosen, label, sign = self._plan(model, model.labels(inspected), rng)
        rows = inspected[chosen]
        attacked = AttackedModule(model, *self._bounds(model, Z))
        noise = stream(seed, "attack starts").uniform(-1.0, 1.0, rows.shape)
        radii = np.unique(np.asarray(self.radii, dtype=np.float64))
        partners = rows.copy()
        # radii before ``smallest`` fail, those from ``last`` on succeed
        smallest, last = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), len(radii))
        with progress_bar(len(rows), "attacks", progress) as bar:
            while len(pending := np.flatnonzero(smallest < last)):
                middle = (smallest[pending] + last[pending]) // 2
                found, success = attacked.attack(
                    rows[pending], label[pending], sign[pending], noise[pending], radii[middle], self.norm, self.n_steps
                )
                hits = pending[success]
                partners[hits], last[hits] = found[success], middle[success]
                smallest[pending[~success]] = middle[~success] + 1
                bar.update(int((smallest == last)[pending].sum()))
        hit = smallest < len(radii)
        successes = np.bincount(smallest[hit], minlength=len(radii))
        report = AttackReport(tuple(radii.tolist()), tuple(successes.tolist()), len(rows))
        rows, label, sign, partners = rows[hit], label[hit], sign[hit], partners[hit]
        partners = attacked.approach(rows, label, sign, partners, self.n_approach)
        search_scale = SearchScale.of(model.schema, Z, self.tolerance)
        pairs = _pairs(model, rows, partners, label, sign)
        points = Collection(model, search_scale, n_boundary)
        points.add(*bisect(model, *pairs, search_scale, stream(seed, "attack search")))
        _require_enough(model, points, report)
        return replace(points.sample(), n_model_rows=model.n_rows - rows_before + attacked.n_rows, attacks=report)

    def _plan(self, model: Model, labels: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray, FloatArray]:
        """Rows to attack, the class whose boundary is sampled, and the direction: towards it (+1) or away (-1)."""
        require_every_class(model, labels)
        members = [rng.permutation(np.flatnonzero(labels == y)) for y in range(int(model.n_classes or 0))]
        attacks = []
        for y, own in enumerate(members):
            attacks.append((own[: self.n_untargeted], y, -1.0))
            if not model.is_binary:  # with two classes, away from one is towards the other
                attacks += [(other[: self.n_targeted], y, 1.0) for v, other in enumerate(members) if v != y]
        counts = [len(rows) for rows, _, _ in attacks]
        rows, label, sign = zip(*attacks, strict=True)
        return np.concatenate(rows), np.repeat(label, counts), np.repeat(sign, counts)

    def _bounds(self, model: Model, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        d = Z.shape[1]
        if isinstance(self.bounds, str):
            if model.schema.shape is not None:
                return np.full(d, Z.min()), np.full(d, Z.max())
            return Z.min(axis=0), Z.max(axis=0)
        pair = []
        for end in self.bounds:
            array = check_finite_array("bounds", end)
            if array.shape not in ((), (d,), model.schema.shape):
                raise InputError(f"bounds has an end of shape {array.shape}; expected a number or one a feature.")
            pair.append(np.broadcast_to(array.reshape(-1), (d,)))
        low, high = pair
        if (low >= high).any() or (low > Z).any() or (high < Z).any():
            raise InputError("bounds must have its first end below its second, and all rows between them.")
        return low, high


def _pairs(
    model: Model, rows: FloatArray, partners: FloatArray, label: IntArray, sign: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Pairs to bisect: a row or partner of the class ``label``, the other one of another class; and that class."""
    partner_first = sign > 0
    if model.is_binary:  # one boundary; its points belong to class 0
        partner_first, label = label == 1, np.zeros_like(label)
    inside = np.where(partner_first[:, None], partners, rows)
    outside = np.where(partner_first[:, None], rows, partners)
    # The module computes in its own precision, the search in double: use pairs that still differ there.
    valid = (model.labels(inside) == label) & (model.labels(outside) != label)
    return inside[valid], outside[valid], label[valid]


def _require_enough(model: Model, found: Collection, report: AttackReport) -> None:
    count, where = found.scarcest()
    least = 1 if model.schema.n_features == 1 else LEAST_POINTS
    if count < least:
        raise BoundaryNotFoundError(
            f"Attacks found {count} boundary points{where}, but at least {least} are needed "
            f"({report.failures} of {report.attempts} attacks failed at every radius); pass more rows, "
            "raise n_targeted or radii, or use boundary=BisectionSampler()."
        )


def _require_gradients(model: Model, Z: FloatArray) -> None:
    if not is_module(model.user_model):
        raise ParameterTypeError(
            f"AdversarialSampler needs the gradients of a torch.nn.Module, got {type(model.user_model).__name__}; use "
            "boundary=BisectionSampler(), or BisectionSampler(n_walk=200) in many dimensions."
        )
    if len(model.schema.categorical):
        raise InputError(
            "AdversarialSampler moves along gradients, which categorical columns do not have; use "
            "boundary=BisectionSampler()."
        )
    if np.isnan(Z).any():
        raise InputError(
            "AdversarialSampler moves along gradients, which missing values do not have; use "
            "boundary=BisectionSampler(), or impute them."
        )
