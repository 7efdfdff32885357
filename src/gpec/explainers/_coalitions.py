"""What a coalition of features is worth: the model's output when the other features come from background rows.

    v(S) = sum_b w_b f(x_S, b_notS)

where ``f`` is the probability, or its log-odds.

A background row that agrees with ``x`` in some features leaves only the others to play: with that row a coalition is
worth what its part among the differing features is worth. So masked rows are shared wherever they are the same.

How coalitions are chosen and what is made of their values is the business of :mod:`gpec.explainers._permutations` and
:mod:`gpec.explainers._paired_regression`, which know nothing of models and rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gpec._validation import check_auto_count
from gpec.data import same_values
from gpec.data._equality import unique_rows
from gpec.errors import ModelCallError, ModelOutputError
from gpec.explainers._linked import Link, LinkedExplainer
from gpec.explainers._shapley_values import all_coalitions, shapley_values
from gpec.typing import BoolArray, FloatArray, IntArray

__all__ = ["CountsCoalitions", "MaskedModel", "Queue", "enumeration_cost", "games", "put_enumeration", "put_games"]

Use = Callable[[FloatArray], Any]

_ENTRIES_AT_ONCE = 3_500_000  # 28 MB of masked rows
_ROWS_AT_ONCE = 65_536
_BATCH_ROWS = 16_384  # the model is called with at most so many: a few more would be a call of their own
_COUNTED_ROWS = 256  # explained rows by which the cost of all is told


class CountsCoalitions(LinkedExplainer):
    """Base of KernelSHAP, ours and shap's: its budget is a number of coalitions."""

    remedy = (
        "fewer background rows or a smaller n_samples cost less, and explainer='tree' reads trees without asking the "
        "model"
    )

    def __init__(self, n_samples: int | str = "auto", *, link: Link = "identity") -> None:
        self.n_samples = n_samples
        self.link = link

    def check(self) -> None:
        super().check()
        check_auto_count("n_samples", self.n_samples)


class MaskedModel:
    """What is explained of a model, and the background rows that stand in for features left out of a coalition.

    Parameters
    ----------
    outputs_of : function
        Encoded rows to ``(n, c)``: the model's probabilities, or their log-odds.
    background : array of shape (B, d)
        Encoded rows.
    merge : bool
        Whether equal background rows become one of greater weight.

    Attributes
    ----------
    rows : array of shape (B, d)
        The background rows.
    weights : array of shape (B,)
        Their weights, of sum 1.
    answers : array of shape (B, c)
        What is explained of them.
    base : array of shape (c,)
        The value of the empty coalition.
    at_once : int
        Masked rows predicted together, at most (but never less than one question).
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
        """What is explained of the rows to be explained, ``(n, c)``; an error of the model names them."""
        try:
            return self.outputs_of(Z)
        except (ModelCallError, ModelOutputError) as error:
            error.explained = error.rows
            raise

    def differs(self, x: FloatArray, references: Any = slice(None)) -> BoolArray:
        """Where background rows differ from a row, ``(r, d)``: a missing value equals a missing value."""
        return ~same_values(x, self.rows[references])

    def enumeration_rows(self, Z: FloatArray, most: float = np.inf) -> int:
        """Model rows for all coalitions of the rows ``Z``, where a row may have ``most``; a share of them tells."""
        some = Z[:: -(-len(Z) // _COUNTED_ROWS)]
        each = [min(most, float(enumeration_cost(self.differs(x)).sum())) for x in some]
        return int(np.mean(each) * len(Z))


def enumeration_cost(differs: BoolArray) -> FloatArray:
    """Model rows for all coalitions of the features in which two rows differ, ``(r, d)`` to ``(r,)``."""
    # no more than a double can hold
    return np.asarray(np.exp2(np.minimum(differs.sum(axis=1), 1_000)) - 2).clip(0)


class Queue:
    """Masked rows of many explained rows, predicted together in calls of bounded size.

    Parameters
    ----------
    game : MaskedModel
        Who predicts.
    Z : array of shape (n, d)
        The explained rows.
    """

    def __init__(self, game: MaskedModel, Z: FloatArray) -> None:
        self.game, self.Z = game, Z
        self._waiting: list[tuple[int, BoolArray, IntArray, Use]] = []
        self._count = 0

    def put(self, row: int, taken: BoolArray, reference: IntArray, use: Use) -> None:
        """Ask for explained row ``row`` where ``taken (r, d)`` and background rows ``reference (r,)`` elsewhere.

        ``use`` will be called with the answers ``(r, c)``, sooner or later, and in order.
        """
        if self._count + len(reference) > self.game.at_once:
            self.flush()
        self._waiting.append((row, taken, reference, use))
        self._count += len(reference)

    def share(self, row: int, p: FloatArray, taken: BoolArray, reference: IntArray, use: Use) -> None:
        """As :meth:`put`, but equal masked rows are predicted once, and those equal to one of the two not at all.

        ``p (c,)`` is the model's answer to the explained row.
        """
        differs = self.game.differs(self.Z[row])[reference]
        taken = taken & differs
        size = taken.sum(axis=1)
        none, every = np.equal(size, 0), np.equal(size, differs.sum(axis=1))
        ask = np.flatnonzero(~(none | every))
        where = place = np.arange(len(ask))
        d = taken.shape[1]
        if d + len(self.game.rows).bit_length() <= 62:  # coalition and background row fit into one number
            codes = (reference[ask] << d) + taken[ask] @ (1 << np.arange(d))
            _, where, place = np.unique(codes, return_index=True, return_inverse=True)

        def use_all(answers: FloatArray) -> None:
            everything = np.where(none[:, None], self.game.answers[reference], p)
            everything[ask] = answers[place]
            use(everything)

        self.put(row, taken[ask[where]], reference[ask[where]], use_all)

    def flush(self) -> None:
        """Predict all that waits."""
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
    """Games of one explained row against background rows, each among the ``m`` features in which the two differ.

    Gives background rows ``(g,)`` of the same ``m > 0`` and the players ``(g, m)``, so many at once that
    ``n_coalitions`` of each (None for all) fit into one prediction.
    """
    differs = queue.game.differs(queue.Z[row], references)
    counts = differs.sum(axis=1)
    for m in np.unique(counts[counts > 0]).tolist():
        members = np.flatnonzero(counts == m)
        step = max(1, queue.game.at_once // max(1, 2**m - 2 if n_coalitions is None else n_coalitions))
        for start in range(0, len(members), step):
            some = members[start : start + step]
            yield references[some], np.nonzero(differs[some])[1].reshape(len(some), m)


def put_games(queue: Queue, row: int, references: IntArray, players: IntArray, masks: BoolArray, use: Use) -> None:
    """Ask for the values ``(g, s, c)`` of coalitions ``masks (g, s, m)``, or ``(1, s, m)``, of ``players (g, m)``."""
    g, s, d = len(references), masks.shape[1], queue.Z.shape[1]
    if players.shape[1] == d:  # everyone plays
        taken = np.broadcast_to(masks, (g, s, d))
    else:
        taken = np.zeros((g, s, d), dtype=bool)
        taken[np.arange(g)[:, None], :, players] = masks.swapaxes(1, 2)

    def use_shaped(answers: FloatArray) -> None:
        use(answers.reshape(g, s, answers.shape[1]))

    queue.put(row, taken.reshape(g * s, d), np.repeat(references, s), use_shaped)


def put_enumeration(queue: Queue, row: int, p: FloatArray, references: IntArray, total: FloatArray) -> None:
    """Add to ``total (d, c)`` the exact Shapley values of an explained row against some background rows, weighted.

    ``p (c,)`` is the model's answer to the explained row.
    """
    game = queue.game
    for some, players in games(queue, row, references, None):

        def use(worth: FloatArray, some: IntArray = some, players: IntArray = players) -> None:
            parts = shapley_values(worth, game.answers[some], p)
            np.add.at(total, players, game.weights[some][:, None, None] * parts)

        put_games(queue, row, some, players, all_coalitions(players.shape[1])[None, 1:-1], use)
