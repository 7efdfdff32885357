"""What a partner tries first on its walk, and how many rows an attack takes unless told."""

import numpy as np
import pytest
from boundary_helpers import judge

from gpec.boundary import AdversarialSampler
from gpec.boundary._walk import walk


def test_columns_are_taken_over_first_and_turned_next():
    rows = np.random.default_rng(0).normal(size=(200, 10))
    model = judge(lambda rows: (rows[:, 0] > 0) * 1.0, rows)
    A, B = rows[rows[:, 0] <= 0][:80], rows[rows[:, 0] > 0][:80]
    label = np.zeros(80, dtype=np.int64)
    once, twice = (walk(model, A, B, label, n, np.random.default_rng(1)) for n in (1, 2))
    assert ((once == A) | (once == B)).all()
    assert (once == A).any()
    fresh = (twice != A) & (twice != B)
    assert fresh.any()
    assert not fresh[(twice == once).all(axis=1)].any()


def test_500_rows_of_each_class_are_attacked_unless_told():
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[3.0, 1.0]]))
        module.bias.zero_()
    X = np.random.default_rng(0).normal(size=(1_400, 2))
    found = AdversarialSampler().sample(module, X, 50, model_output="logit", random_state=0, progress=False)
    assert found.attacks.attempts == 2 * 500
