"""Values of coalitions: the model's output when the features outside a coalition come from background rows.

    v(S) = sum_b w_b f(x_S, b_notS)

where ``f`` is the probability, or its log-odds.

Features in which a background row equals ``x`` do not change the masked row. Only the other features are players in the
game with that background row, and equal masked rows are predicted once.

:mod:`gpec.explainers.shapley` and :mod:`gpec.explainers._kernelshap_regression` choose the coalitions and compute
Shapley values from their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from math import comb
from typing import Any

import numpy as np

from gpec._validation import check_auto_count
from gpec.data import same_values
from gpec.data._equality import unique_rows
from gpec.errors import ModelCallError, ModelOutputError
from gpec.explainers._linked import Link, LinkedExplainer
from gpec.typing import BoolArray, FloatArray, IntArray

Use = Callable[[FloatArray], Any]

_ENTRIES_AT_ONCE = 3_500_000  # 28 MB of masked rows
_ROWS_AT_ONCE = 65_536
_BATCH_ROWS = 16_384  # rows in one call of the model; a few more rows would need another call


@dataclass(eq=False, repr=False)
class CoalitionExplainer(LinkedExplainer):
    """Base of gpec's and shap's KernelSHAP, whose budget is a number of coalitions."""

    remedy = (
        "fewer background rows or a smaller n_samples cost less, and explainer='tree' needs no calls of a tree model"
    )
    n_samples: int | str = "auto"
    _: KW_ONLY
    link: Link = "identity"

    def check(self) -> None:
        super().check()
        check_auto_count("n_samples", self.n_samples)


class MaskedModel:
    """The explained function of a model, and the background rows that replace features outside a coalition.

    Parameters
    ----------
    outputs_of : function
        Encoded rows to ``(n, c)``: the model's probabilities, or their log-odds.
    background : array of shape (B, d)
        Encoded rows.
    merge : bool
        Whether equal background rows are merged into one with a greater weight.

    Attributes
    ----------
    rows : array of shape (B, d)
        The background rows.
    weights : array of shape (B,)
        Their weights, which sum to 1.
    answers : array of shape (B, c)
        The explained function of the background rows.
    base : array of shape (c,)
        The value of the empty coalition.
    at_once : int
        Largest number of masked rows in one prediction, unless a single submission is larger.
    """

    def __init__(
        self, outputs_of: Callable[[FloatArray], FloatArray], background: FloatArray, *, merge: bool = True
    ) -> None:
        self.outputs_of = outputs_of
        self.rows, self.weights = background, np.full(len(background), 1 / len(background))
        if merge:
            self.rows, counts = unique_rows(background)
            self.weights = counts / len(background)
        self.answers = outputs_of(self.rows)
        self.base = self.weights @ self.answers
        at_once = max(256, min(_ROWS_AT_ONCE, _ENTRIES_AT_ONCE // background.shape[1]))
        self.at_once = at_once - at_once % _BATCH_ROWS if at_once > _BATCH_ROWS else at_once

    def answers_to(self, Z: FloatArray) -> FloatArray:
        """The explained function of the rows to explain, ``(n, c)``; an error of the model names the rows."""
        try:
            return self.outputs_of(Z)
        except (ModelCallError, ModelOutputError) as error:
            error.explained = error.rows
            raise

    def differs(self, x: FloatArray, references: Any = slice(None)) -> BoolArray:
        """Whether background rows differ from a row in each feature, ``(r, d)``; two missing values are equal."""
        return ~same_values(x, self.rows[references])


def enumeration_cost(differs: BoolArray) -> FloatArray:
    """Model rows for all coalitions of the features in which two rows differ, ``(r, d)`` to ``(r,)``."""
    # the exponent is limited, so that the result is finite
    return np.asarray(np.exp2(np.minimum(differs.sum(axis=1), 1_000)) - 2).clip(0)


class Queue:
    """Masked rows of many explained rows, predicted together in calls of bounded size.

    Parameters
    ----------
    game : MaskedModel
        Predicts the masked rows.
    Z : array of shape (n, d)
        The explained rows.
    """

    def __init__(self, game: MaskedModel, Z: FloatArray) -> None:
        self.game, self.Z = game, Z
        self._waiting: list[tuple[int, BoolArray, IntArray, Use]] = []
        self._count = 0

    def submit(self, row: int, taken: BoolArray, reference: IntArray, use: Use) -> None:
        """Submit masked rows: the explained row where ``taken (r, d)``, background rows ``reference (r,)`` elsewhere.

        ``use`` is called later with the answers ``(r, c)``, in the order of submission.
        """
        if self._count + len(reference) > self.game.at_once:
            self.flush()
        self._waiting.append((row, taken, reference, use))
        self._count += len(reference)

    def submit_unique(self, row: int, p: FloatArray, taken: BoolArray, reference: IntArray, use: Use) -> None:
        """Like :meth:`submit`, but predicts equal masked rows once, and rows equal to one of the two originals never.

        ``p (c,)`` is the model's answer to the explained row.
        """
        differs = self.game.differs(self.Z[row])[reference]
        taken = taken & differs
        size = taken.sum(axis=1)
        is_empty, is_full = np.equal(size, 0), np.equal(size, differs.sum(axis=1))
        needed = np.flatnonzero(~(is_empty | is_full))
        where = place = np.arange(len(needed))
        d = taken.shape[1]
        if d + len(self.game.rows).bit_length() <= 62:  # coalition and background row fit into one number
            codes = (reference[needed] << d) + taken[needed] @ (1 << np.arange(d))
            _, where, place = np.unique(codes, return_index=True, return_inverse=True)

        def use_with_known(answers: FloatArray) -> None:
            all_answers = np.where(is_empty[:, None], self.game.answers[reference], p)
            all_answers[needed] = answers[place]
            use(all_answers)

        self.submit(row, taken[needed[where]], reference[needed[where]], use_with_known)

    def flush(self) -> None:
        """Predict all submitted rows."""
        waiting, self._waiting, self._count = self._waiting, [], 0
        lengths = [len(reference) for _, _, reference, _ in waiting]
        answers = np.empty((0, self.game.answers.shape[1]))
        if sum(lengths):
            masked, start = np.empty((sum(lengths), self.Z.shape[1])), 0
            for (row, taken, part, _), length in zip(waiting, lengths, strict=True):
                some = masked[start : start + length]
                np.take(self.game.rows, part, axis=0, out=some, mode="clip")  # "raise" would buffer
                np.copyto(some, self.Z[row], where=taken)
                start += length
            try:
                answers = self.game.outputs_of(masked)
            except (ModelCallError, ModelOutputError) as error:
                owner = np.repeat([row for row, _, _, _ in waiting], lengths)
                error.explained = (int(owner[error.rows[0]]), int(owner[error.rows[1]]))
                raise
        start = 0
        for (_, _, _, use), length in zip(waiting, lengths, strict=True):
            use(answers[start : start + length])
            start += length


def games(
    queue: Queue, row: int, references: IntArray, n_coalitions: int | None
) -> Iterator[tuple[IntArray, IntArray]]:
    """Games of one explained row against background rows; the players are the ``m`` features in which the two differ.

    Yields background rows ``(g,)`` with the same ``m > 0`` and the players ``(g, m)``, in groups for which
    ``n_coalitions`` of each game (None: all) fit into one prediction.
    """
    differs = queue.game.differs(queue.Z[row], references)
    counts = differs.sum(axis=1)
    for m in np.unique(counts[counts > 0]).tolist():
        members = np.flatnonzero(counts == m)
        step = max(1, queue.game.at_once // max(1, 2**m - 2 if n_coalitions is None else n_coalitions))
        for start in range(0, len(members), step):
            some = members[start : start + step]
            yield references[some], np.nonzero(differs[some])[1].reshape(len(some), m)


def submit_games(queue: Queue, row: int, references: IntArray, players: IntArray, masks: BoolArray, use: Use) -> None:
    """Submit the coalitions ``masks (g, s, m)`` or ``(1, s, m)`` of ``players (g, m)``; their values: ``(g, s, c)``."""
    g, s, d = len(references), masks.shape[1], queue.Z.shape[1]
    if players.shape[1] == d:  # all features are players
        taken = np.broadcast_to(masks, (g, s, d))
    else:
        taken = np.zeros((g, s, d), dtype=bool)
        taken[np.arange(g)[:, None], :, players] = masks.swapaxes(1, 2)

    def use_shaped(answers: FloatArray) -> None:
        use(answers.reshape(g, s, answers.shape[1]))

    queue.submit(row, taken.reshape(g * s, d), np.repeat(references, s), use_shaped)


def submit_enumeration(queue: Queue, row: int, p: FloatArray, references: IntArray, total: FloatArray) -> None:
    """Add the weighted exact Shapley values of an explained row against some background rows to ``total (d, c)``.

    ``p (c,)`` is the model's answer to the explained row.
    """
    game = queue.game
    for some, players in games(queue, row, references, None):

        def use(worth: FloatArray, some: IntArray = some, players: IntArray = players) -> None:
            parts = shapley_values(worth, game.answers[some], p)
            np.add.at(total, players, game.weights[some][:, None, None] * parts)

        submit_games(queue, row, some, players, all_coalitions(players.shape[1])[None, 1:-1], use)


@lru_cache(maxsize=32)
def all_coalitions(m: int) -> BoolArray:
    """All coalitions of ``m`` players ``(2^m, m)``, the empty one first and the full one last; a read-only array."""
    masks = (np.arange(2**m)[:, None] >> np.arange(m) & 1).astype(bool)
    masks.setflags(write=False)
    return masks


@lru_cache(maxsize=32)
def _weights(m: int) -> FloatArray:
    """Weight of each coalition's value for each player, ``(m, 2^m - 2)``, without the empty and the full coalition."""
    masks = all_coalitions(m)[1:-1]
    size = masks.sum(axis=1)
    share = np.array([1.0 / (m * comb(m - 1, k)) for k in range(m)])  # |S|! (m - |S| - 1)! / m!
    return np.ascontiguousarray(np.where(masks, share[size - 1][:, None], -share[size][:, None]).T)


def shapley_values(inner: FloatArray, empty: FloatArray, full: FloatArray) -> FloatArray:
    """Shapley values ``(g, m, c)`` of ``g`` games of ``m`` players and ``c`` outputs, from all their coalitions.

    ``phi_j = sum over S without j of |S|! (m - |S| - 1)! / m! * (v(S + j) - v(S))``.

    Parameters
    ----------
    inner : array of shape (g, 2^m - 2, c)
        The values of all other coalitions, in the order of :func:`all_coalitions`.
    empty, full : arrays of shape (g, c) or (c,)
        The values of the empty and of the full coalition.

    Examples
    --------
    >>> import numpy as np
    >>> shapley_values(np.array([[[3.0], [1.0]]]), np.array([0.0]), np.array([6.0]))[0, :, 0]
    array([4., 2.])
    """
    m = int(inner.shape[1] + 2).bit_length() - 1
    whole = np.broadcast_to(full - empty, (len(inner), inner.shape[2]))
    return np.asarray(np.matmul(_weights(m), inner) + whole[:, None, :] / m)
