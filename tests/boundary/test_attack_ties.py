"""Attacks on a network that is undecided in a whole region, as rectifiers make it."""

import numpy as np
import pytest

from gpec.boundary import AdversarialSampler
from gpec.boundary._attack import AttackedModule
from gpec.data import Schema
from gpec.models import Model

torch = pytest.importorskip("torch")


class Disc(torch.nn.Module):
    """The logit is positive within the unit circle, and exactly 0 outside: class 0, by a tie."""

    def __init__(self):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.tensor(5.0))

    def forward(self, x):
        return self.slope * torch.relu(1 - (x**2).sum(dim=1, keepdim=True))


def rows_and_partners(n=200):
    rng = np.random.default_rng(0)
    angle, inside = rng.uniform(0, 2 * np.pi, n), rng.uniform(-0.5, 0.5, (n, 2))
    return rng.uniform(1.2, 1.9, n)[:, None] * np.column_stack((np.cos(angle), np.sin(angle))), inside


def test_partners_that_come_nearer_do_not_stop_at_a_tie():
    rows, partners = rows_and_partners()
    schema, Z = Schema.learn(np.concatenate((rows, partners)))
    model = Model(Disc(), schema, model_output="logit")
    np.testing.assert_array_equal(model.labels(Z), np.repeat([0, 1], len(rows)))
    attacked = AttackedModule(model, np.full(2, -2.0), np.full(2, 2.0))
    away = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), -1.0)
    found = attacked.approach(rows, *away, partners, 5)
    assert (model.labels(found) == 1).all()
    before, after = (np.linalg.norm(to - rows, axis=1) for to in (partners, found))
    assert (after <= before).all()
    nearest = np.linalg.norm(rows, axis=1) - 1
    assert (after >= nearest - 1e-6).all()
    assert np.median(after / nearest) < 1.1


def test_no_partner_is_lost_to_a_tie():
    rows, inside = rows_and_partners()
    sampler = AdversarialSampler(100, 10, bounds=(-2, 2))
    module, X = Disc(), np.concatenate((rows, inside))
    found = sampler.sample(module, X, 1_000, model_output="logit", random_state=0, progress=False)
    np.testing.assert_allclose(np.linalg.norm(found.points, axis=1), 1.0, atol=1e-5)
    assert len(found) == sum(found.attacks.successes)
