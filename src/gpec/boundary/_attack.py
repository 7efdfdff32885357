"""Adversarial attacks on a torch Module, on many rows together.

A targeted attack increases the log-odds of a class. An untargeted attack decreases those of the row's own class. Both
take projected gradient steps inside a ball until the predicted class has changed as wanted:

    log-odds of c = z_c - log(sum of exp(z_v) over v != c)

Their gradient has the direction of the gradient of the cross-entropy, but does not round to zero where the network is
certain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logit

from gpec.errors import BoundaryNotFoundError, ModelCallError, ModelOutputError
from gpec.models import Model
from gpec.models._torch import as_tensor, evaluation_mode, torch_settings
from gpec.typing import BoolArray, FloatArray, IntArray

_STEP = 1 / 30  # of the radius, so that 40 steps can cross the ball
_BATCH = 2_048
_HALVINGS = 8
_OVERSHOOTS = (1.02, 1.1, 1.25, 1.5, 2.0)
_TURNS = (0.3, 0.7, 1.0)
_TINY = 1e-30


class AttackedModule:
    """The user's module as a function from flat rows to two or more logits, with gradients for its input only.

    An attack on a row has a class ``goal`` and a ``sign``: +1 increases the log-odds of that class, -1 decreases them.
    """

    def __init__(self, model: Model, low: FloatArray, high: FloatArray) -> None:
        import torch

        self.torch, self.model, self.module = torch, model, model.user_model
        self.device = torch_settings(self.module)[1]
        self.low, self.high = self._tensor(low), self._tensor(high)
        self.width = self.high - self.low
        self.n_rows = 0
        self._tried = self._steep = False  # gradients were computed; one of them was not zero

    def attack(
        self,
        rows: FloatArray,
        goal: IntArray,
        sign: FloatArray,
        noise: FloatArray,
        radius: FloatArray,
        norm: str,
        n_steps: int,
    ) -> tuple[FloatArray, BoolArray]:
        """Projected gradient steps on all rows together; a row stops when its attack succeeds."""
        found, success = rows.copy(), np.zeros(len(rows), dtype=bool)
        with evaluation_mode(self.module):
            for part in _batches(len(rows)):
                ball = Ball(self, self._tensor(rows[part]), self._tensor(radius[part])[:, None], norm)
                start = ball.project(ball.origin + ball.radius * self.width * self._tensor(noise[part]))
                partners, hit = self._climb(ball, start, *self._targets(goal[part], sign[part]), n_steps)
                found[part][hit], success[part] = partners[hit], hit
        if self._tried and not self._steep:
            raise BoundaryNotFoundError(
                "The gradient of the model with respect to its input is zero for every row tried, so attacks cannot "
                "move; use boundary=BisectionSampler()."
            )
        return found, success

    def _climb(self, ball: Ball, x: Any, goal: Any, sign: Any, n_steps: int) -> tuple[FloatArray, BoolArray]:
        """The first step at which the margin of class ``goal`` has the wanted sign, and where that succeeded."""
        torch = self.torch
        result = ball.origin.clone()
        success = torch.zeros(len(result), dtype=torch.bool, device=self.device)
        active = torch.arange(len(result), device=self.device)
        for step in range(n_steps + 1):
            x = x.detach().requires_grad_(True)
            odds, margin = self._odds_and_margin(x, goal[active])
            hit = sign[active] * margin.detach() > 0
            result[active[hit]], success[active[hit]] = x.detach()[hit], True
            if step == n_steps or bool(hit.all()):
                break
            (gradient,) = torch.autograd.grad((sign[active] * odds).sum(), x)
            self._tried, self._steep = True, self._steep or bool(gradient.any())
            with torch.no_grad():
                active, x, gradient = active[~hit], x[~hit], gradient[~hit]
                ball = ball.only(~hit)
                x = ball.project(x + _STEP * ball.radius * ball.direction(gradient))
        return result.cpu().double().numpy(), success.cpu().numpy()

    def approach(
        self, rows: FloatArray, goal: IntArray, sign: FloatArray, partners: FloatArray, n_steps: int
    ) -> FloatArray:
        """Partners moved closer to their row, to the nearest point of the linearised boundary (as DeepFool).

        A step is accepted if it leads to the wanted class and closer to the row, in widths of the bounds.
        """
        found = partners.copy()
        with evaluation_mode(self.module):
            for part in _batches(len(rows)):
                targets = self._targets(goal[part], sign[part])
                origin, start = self._tensor(rows[part]), self._tensor(found[part])
                x = start
                for _ in range(n_steps):
                    x = self._nearer(origin, x, *targets)
                moved = (x != start).any(dim=1).cpu().numpy()
                found[part][moved] = x.cpu().double().numpy()[moved]
        return found

    def _nearer(self, origin: Any, partner: Any, goal: Any, sign: Any) -> Any:
        torch = self.torch
        with torch.no_grad():
            low, high = torch.zeros_like(sign), torch.ones_like(sign)
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                inside = sign * self._odds_and_margin(torch.lerp(origin, partner, middle[:, None]), goal)[1] <= 0
                low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
            point = torch.lerp(origin, partner, high[:, None])
        point = point.requires_grad_(True)
        (gradient,) = torch.autograd.grad((sign * self._odds_and_margin(point, goal)[1]).sum(), point)
        with torch.no_grad():
            width = self.width.clamp_min(_TINY)
            normal, offset = gradient * self.width, (point - origin) / width
            climb = (offset * normal).sum(dim=1, keepdim=True)
            # a pixel at its bound cannot move beyond it
            stuck = ((origin <= self.low) & (normal < 0)) | ((origin >= self.high) & (normal > 0))
            normal = normal.masked_fill(stuck, 0.0)
            step = climb / (normal**2).sum(dim=1, keepdim=True).clamp_min(_TINY) * normal
            result, length = point.detach(), offset.norm(dim=1)
            for turn in _TURNS:  # the boundary is curved: a full turn may miss it where a partial turn does not
                for overshoot in _OVERSHOOTS:
                    moved = origin + overshoot * torch.lerp(offset, step, turn) * width
                    tried = torch.maximum(torch.minimum(moved, self.high), self.low)
                    reach = ((tried - origin) / width).norm(dim=1)
                    hit = (sign * self._odds_and_margin(tried, goal)[1] > 0) & (reach < length)
                    result, length = torch.where(hit[:, None], tried, result), torch.where(hit, reach, length)
            return result

    def _odds_and_margin(self, x: Any, goal: Any) -> tuple[Any, Any]:
        """Log-odds of one class against the others, and its logit minus the greatest of the others."""
        self.n_rows += len(x)
        try:
            output = self.module(x.reshape(len(x), *(self.model.schema.shape or x.shape[1:])))
        except Exception as error:
            raise ModelCallError(
                f"The model raised {type(error).__name__} on {len(x)} rows under attack: {error}"
            ) from error
        logits = self._logits(output.reshape(len(x), -1))
        if not bool(logits.detach().isfinite().all()):
            raise ModelOutputError(
                "The model returned a number that is not finite for a row under attack; it must give finite numbers "
                "everywhere within bounds."
            )
        index = goal[:, None]
        own = logits.gather(1, index)[:, 0]
        others = logits.scatter(1, index, -self.torch.inf)
        return own - others.logsumexp(dim=1), own - others.amax(dim=1)

    def _logits(self, output: Any) -> Any:
        torch = self.torch
        if self.model.output == "probability":
            output = torch.logit(output, eps=1e-7) if output.shape[1] == 1 else output.clamp_min(_TINY).log()
        if output.shape[1] == 1:
            output = torch.cat((torch.zeros_like(output), output), dim=1)
        if self.model.is_binary:
            output = torch.stack((output[:, 0], output[:, 1] - float(logit(self.model.threshold))), dim=1)
        return output

    def _targets(self, goal: IntArray, sign: FloatArray) -> tuple[Any, Any]:
        return self.torch.as_tensor(goal, device=self.device), self._tensor(sign)

    def _tensor(self, array: FloatArray) -> Any:
        return as_tensor(self.module, array)


def _batches(n: int) -> Iterator[slice]:
    return (slice(start, start + _BATCH) for start in range(0, n, _BATCH))


@dataclass(frozen=True, eq=False)
class Ball:
    """Balls around rows, intersected with the bounds; lengths are in widths of the bounds."""

    attacked: AttackedModule
    origin: Any
    radius: Any
    norm: str

    def only(self, rows: Any) -> Ball:
        return replace(self, origin=self.origin[rows], radius=self.radius[rows])

    def direction(self, gradient: Any) -> Any:
        """The step of the unit ball that increases a linear function with this gradient most."""
        width = self.attacked.width
        if self.norm == "linf":
            return width * gradient.sign()
        scaled = gradient * width
        return width * scaled / scaled.norm(dim=1, keepdim=True).clamp_min(_TINY)

    def project(self, x: Any) -> Any:
        """The nearest points of the balls, then of the bounds."""
        torch, width, origin = self.attacked.torch, self.attacked.width, self.origin
        if self.norm == "linf":
            x = torch.maximum(torch.minimum(x, origin + self.radius * width), origin - self.radius * width)
        else:
            step = (x - origin) / width.clamp_min(_TINY)
            shrink = (self.radius / step.norm(dim=1, keepdim=True).clamp_min(_TINY)).clamp_max(1.0)
            x = origin + width * step * shrink
        return torch.maximum(torch.minimum(x, self.attacked.high), self.attacked.low)
