"""Adversarial boundaries of networks: closed forms, small radii first, and the user's module left as it was."""

import copy

import numpy as np
import pytest
from boundary_helpers import judge
from scipy.spatial.distance import cdist
from sklearn.base import clone

import gpec
from gpec.boundary import AdversarialSampler, AttackReport, BisectionSampler
from gpec.boundary._attack import AttackedModule
from gpec.errors import BoundaryNotFoundError, InputError, ModelCallError, ModelOutputError, ParameterTypeError

torch = pytest.importorskip("torch")
nn = torch.nn
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(400, 5))
SMALL = {"n_untargeted": 40, "n_targeted": 15}


def linear_module(weights, bias=0.0, dtype=torch.float32):
    module = nn.Linear(len(weights), 1).to(dtype)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([weights]))
        module.bias.fill_(bias)
    return module


def network(outputs, seed=0, inputs=5, dtype=torch.float32):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(inputs, 32), nn.Tanh(), nn.Linear(32, outputs)).to(dtype)


def logits(module, rows):
    with torch.no_grad():
        return module.eval()(torch.as_tensor(rows, dtype=next(module.parameters()).dtype)).double().numpy()


def attack(attacked, rows, labels, radius, norm="linf", n_steps=40, *, noise=0.0, towards=None):
    """Away from the class of each row, or towards another."""
    goal, sign = (labels, -1.0) if towards is None else (towards, 1.0)
    noise = np.broadcast_to(noise, rows.shape)
    return attacked.attack(rows, goal, np.full(len(rows), sign), noise, np.full(len(rows), radius), norm, n_steps)


def sample(module, rows=X, sampler=None, n_boundary=1_000, **options):
    sampler = sampler or AdversarialSampler(**SMALL)
    return sampler.sample(module, rows, n_boundary, random_state=0, progress=False, **options)


class TestBinary:
    def test_points_of_a_linear_boundary_lie_on_it(self):
        w, b = [1.0, -2.0, 0.5, 0.0, 3.0], 0.3
        found = sample(linear_module(w, b))
        assert np.abs(found.points @ w + b).max() < 1e-5
        assert (found.label == 0).all()
        before, beyond = found.ends()
        assert (before @ w + b <= 1e-6).all()
        assert (beyond @ w + b >= -1e-6).all()

    def test_attacks_on_a_linear_model_need_the_distance_to_its_boundary(self):
        """In l-infinity that is |w x + b| / |w|_1, in l2 |w x + b| / |w|_2; radii are shares of a width of 2."""
        w, b = np.array([1.0, -2.0, 0.5, 0.0, 3.0]), 0.3
        model = judge(linear_module(w.tolist(), b), X)
        rows = X[(np.abs(X) < 0.4).all(axis=1)]  # far from the bounds, which would be in the way
        assert len(rows) > 3
        score, labels = np.abs(rows @ w + b), model.labels(rows)
        for norm, size in (("linf", np.abs(w).sum()), ("l2", np.sqrt((w**2).sum()))):
            for slack, expected in ((0.97, False), (1.06, True)):
                attacked = AttackedModule(model, np.full(5, -1.0), np.full(5, 1.0))
                radius = np.maximum(score / size, 1e-6) / 2 * slack
                _, success = attack(attacked, rows, labels, radius, norm, 60)
                assert success.all() if expected else not success.any(), (norm, slack)

    def test_a_pixel_at_its_bound_does_not_hold_up_the_others(self):
        """3 a + b > 0.5 at (0, 0.8): a cannot fall, so b must, by 0.3."""
        w, b = [3.0, 1.0], -0.5
        rows = np.array([[0.0, 0.8], [0.0, 0.0], [1.0, 1.0], [0.5, 0.5]])
        attacked = AttackedModule(judge(linear_module(w, b), rows), np.zeros(2), np.ones(2))
        found = attacked.approach(rows[:1], np.array([1]), np.array([-1.0]), rows[1:2], 3)
        assert found[0, 0] == 0
        assert 0.45 < found[0, 1] <= 0.5

    def test_attacks_aim_at_the_threshold(self):
        sampler = AdversarialSampler(**SMALL, n_approach=0)
        found = sample(linear_module([4.0, 1.0, 0.0, 0.0, 0.0]), sampler=sampler, threshold=0.9)
        assert sum(found.attacks.successes) == found.attacks.attempts
        assert len(found) == found.attacks.attempts  # each partner lies beyond 0.9, not merely beyond 0.5

    def test_the_threshold_is_respected(self):
        found = sample(linear_module([1.0, 0.0, 0.0, 0.0, 0.0]), threshold=0.7)
        assert np.abs(found.points[:, 0] - np.log(0.7 / 0.3)).max() < 1e-5

    @pytest.mark.parametrize("outputs", [1, 2])
    def test_one_or_two_outputs_of_probabilities(self, outputs):
        base = network(outputs)
        squash = nn.Sigmoid() if outputs == 1 else nn.Softmax(dim=1)
        found = sample(nn.Sequential(base, squash), model_output="probability")
        z = logits(base, found.points)
        assert np.abs(z[:, 0] if outputs == 1 else z[:, 1] - z[:, 0]).max() < 1e-4


class TestSeveralClasses:
    @pytest.fixture
    def module(self):
        return network(3, seed=4)

    def test_top_two_logits_meet_and_the_class_is_among_them(self, module):
        found = sample(module)
        z = logits(module, found.points)
        order = np.argsort(-z, axis=1)
        best = np.take_along_axis(z, order[:, :2], axis=1)
        assert (best[:, 0] - best[:, 1]).max() < 1e-3
        assert (order[:, :2] == found.label[:, None]).any(axis=1).all()
        assert (np.bincount(found.label) >= 10).all()

    def test_the_class_changes_across_each_point(self, module):
        found = sample(module)
        before, beyond = (logits(module, end).argmax(axis=1) for end in found.ends())
        assert (before == found.label).all()
        assert (beyond != found.label).all()

    def test_all_successes_are_counted(self, module):
        report = sample(module).attacks
        counts = np.bincount(logits(module, X).argmax(axis=1))
        expected = sum(min(c, 40) + 2 * min(c, 15) for c in counts)
        assert report.attempts == expected
        assert report.failures + sum(report.successes) == expected
        assert sum(report.successes) > 0.9 * expected
        assert report.radii == (2e-4, 5e-4, 8e-4, 1e-3, 1.5e-3, 2e-3, 3e-3, 1e-2, 1e-1, 3e-1, 5e-1, 1.0)

    def test_the_smallest_radius_is_the_one_found_by_trying_all(self, module):
        """Each radius alone, on all rows: as many succeed there as the report says for it and the smaller ones."""
        sampler = AdversarialSampler(n_untargeted=len(X), n_targeted=1)
        found = sample(module, sampler=sampler)
        successes = np.cumsum(found.attacks.successes)
        model = judge(module, X)
        labels, noise = model.labels(X), RNG.uniform(-1, 1, X.shape)
        attacked = AttackedModule(model, X.min(axis=0), X.max(axis=0))
        each = [attack(attacked, X, labels, radius, noise=noise)[1].sum() for radius in sampler.radii]
        assert found.attacks.attempts == len(X) + 6  # the six towards a class from another
        assert np.abs(successes - each).max() <= 6 + 0.05 * len(X)
        assert 0 < each[6] < each[8] < each[-1]

    def test_partners_stay_in_the_bounds_and_in_the_ball(self, module):
        model = judge(module, X)
        labels, low, high = model.labels(X), X.min(axis=0), X.max(axis=0)
        for norm in ("linf", "l2"):
            attacked = AttackedModule(model, low, high)
            found, success = attack(attacked, X, labels, 0.2, norm, 10, noise=RNG.uniform(-1, 1, X.shape))
            assert 0 < success.sum() < len(X)
            assert (found >= low - 1e-6).all()
            assert (found <= high + 1e-6).all()
            step = (found - X) / (high - low)
            size = np.abs(step).max(axis=1) if norm == "linf" else np.sqrt((step**2).sum(axis=1))
            assert size.max() <= 0.2 + 1e-5
            assert np.array_equal(found[~success], X[~success])
            assert (model.labels(found[success]) != labels[success]).all()

    def test_targets_are_reached(self, module):
        model = judge(module, X)
        target = (model.labels(X) + 1) % 3
        found, success = attack(AttackedModule(model, X.min(axis=0), X.max(axis=0)), X, None, 0.5, towards=target)
        assert success.sum() > 50
        assert (model.labels(found[success]) == target[success]).all()

    def test_seeds(self, module):
        first, again = sample(module), sample(module)
        assert np.array_equal(first.points, again.points)
        other = AdversarialSampler(**SMALL).sample(module, X, 1_000, random_state=1, progress=False)
        assert not np.array_equal(first.points, other.points)

    def test_global_generators_are_left_alone(self, module):
        torch_state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].copy()
        sample(module)
        assert torch.equal(torch.random.get_rng_state(), torch_state)
        assert np.array_equal(np.random.get_state()[1], numpy_state)

    def test_n_boundary_is_an_upper_bound(self, module):
        assert np.bincount(sample(module, n_boundary=12).label).min() >= 12
        assert len(sample(module, n_boundary=12)) < len(sample(module))


class TestApproach:
    def test_partners_of_a_linear_model_go_to_the_foot_of_the_perpendicular(self):
        w, b = np.array([1.0, -2.0, 0.5, 0.0, 3.0]), 0.3
        model = judge(linear_module(w.tolist(), b), X)
        labels = model.labels(X)
        rows = X[(np.abs(X) < 0.5).all(axis=1) & (labels == 1)]
        assert len(rows) > 5
        partners = np.repeat(X[labels == 0][:1], len(rows), axis=0)
        attacked = AttackedModule(model, np.full(5, -1.0), np.full(5, 1.0))
        found = attacked.approach(rows, np.ones(len(rows), dtype=int), np.full(len(rows), -1.0), partners, 3)
        step, foot = found - rows, -((rows @ w + b) / (w @ w))[:, None] * w
        length, nearest = np.linalg.norm(step, axis=1), np.linalg.norm(foot, axis=1)
        assert ((step * foot).sum(axis=1) / (length * nearest)).min() > 0.99  # the same direction
        assert (length >= nearest).all()
        assert (length <= 1.1 * nearest + 1e-2).all()
        assert (model.labels(found) == 0).all()

    def test_points_come_nearer_and_keep_their_classes(self):
        module, rows = network(3, seed=0, inputs=40), np.random.default_rng(2).normal(size=(400, 40))
        samples = [sample(module, rows, AdversarialSampler(**SMALL, n_approach=n)) for n in (0, 5)]

        def median_distance(points):
            return np.median(cdist(points, rows).min(axis=1))

        assert median_distance(samples[1].points) < 0.8 * median_distance(samples[0].points)
        z = logits(module, samples[1].points)
        order = np.argsort(-z, axis=1)[:, :2]
        assert (np.take_along_axis(z, order, axis=1) @ [1, -1]).max() < 1e-3
        assert (order == samples[1].label[:, None]).any(axis=1).all()

    def test_it_stays_within_the_bounds(self):
        module = network(3, seed=4)
        points = sample(module).points
        assert (points >= X.min(axis=0) - 1e-6).all()
        assert (points <= X.max(axis=0) + 1e-6).all()


class TestTheUsersModule:
    def test_it_is_left_exactly_as_it_was(self):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            module = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
            with torch.no_grad():
                module[4].bias.zero_()
        module.train()
        module[1].eval()  # a mixture of modes
        module[0].weight.requires_grad_(False)
        calls = []
        hook = module[0].register_forward_hook(lambda *_: calls.append(1))
        state = copy.deepcopy(module.state_dict())
        modes = [part.training for part in module.modules()]
        sample(module)
        assert [part.training for part in module.modules()] == modes
        assert all(parameter.grad is None for parameter in module.parameters())
        assert not module[0].weight.requires_grad
        assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())
        assert list(module[0]._forward_hooks) == [hook.id]
        assert calls

    def test_modes_come_back_after_an_error(self):
        class Fails(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.n = network(3), 0

            def forward(self, x):
                self.n += 1
                if self.n > 3:
                    raise RuntimeError("out of memory")
                return self.inner(x)

        module = Fails().train()
        with pytest.raises(
            ModelCallError, match=r"raised RuntimeError on \d+ rows under attack: out of memory"
        ) as caught:
            sample(module)
        assert module.training
        assert isinstance(caught.value.__cause__, RuntimeError)

    def test_numbers_that_are_not_finite_are_refused(self):
        class Nan(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = network(3)

            def forward(self, x):
                answer = self.inner(x)
                return answer / (x.requires_grad is False)  # infinite only under attack

        with pytest.raises(ModelOutputError, match="not finite for a row under attack"):
            sample(Nan())

    def test_double_precision_stays(self):
        module = network(3, dtype=torch.float64)
        seen = set()
        module[0].register_forward_hook(lambda _, inputs, __: seen.add(inputs[0].dtype))
        found = sample(module)
        z = np.sort(logits(module, found.points), axis=1)
        assert (z[:, -1] - z[:, -2]).max() < 1e-5
        assert seen == {torch.float64}

    def test_convolution_with_batch_norm_and_dropout_on_images(self):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            module = nn.Sequential(
                nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(144, 3)
            )
            with torch.no_grad():
                module[5].weight.mul_(4)
        images = np.random.default_rng(1).uniform(0, 1, size=(200, 1, 8, 8))
        found = sample(module.train(), images, standardize=False)
        z = np.sort(logits(module, found.points.reshape(-1, 1, 8, 8)), axis=1)
        assert (z[:, -1] - z[:, -2]).max() < 1e-3
        assert found.points.min() >= images.min() - 1e-6
        assert found.points.max() <= images.max() + 1e-6


class TestWrongCalls:
    def test_a_gradient_of_zero_everywhere(self):
        class Steps(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = network(3)

            def forward(self, x):
                return torch.round(self.inner(x) * 10)

        with pytest.raises(BoundaryNotFoundError, match=r"gradient .* is zero .*boundary=BisectionSampler\(\)"):
            sample(Steps(), sampler=AdversarialSampler(**SMALL, radii=[0.01]))

    def test_no_attack_succeeds(self):
        far = linear_module([1e-3, 0.0, 0.0, 0.0, 0.0], 0.5)
        with torch.no_grad():
            far.bias.fill_(-1e-3 * X[:, 0].max() + 1e-6)
        with pytest.raises(BoundaryNotFoundError, match=r"at least 10 are needed .* attacks failed at every radius"):
            sample(far, sampler=AdversarialSampler(**SMALL, radii=[1e-9]))

    def test_one_predicted_class(self):
        with pytest.raises(BoundaryNotFoundError, match="never predicts class 0 for the 400 rows tried"):
            sample(linear_module([0.0] * 5, 1.0), model_output="logit")

    def test_a_model_without_gradients(self):
        with pytest.raises(ParameterTypeError, match=r"needs the gradients of a torch\.nn\.Module, got function"):
            sample(lambda rows: rows[:, 0] * 0.5 + 0.5)

    def test_categories(self):
        with pytest.raises(InputError, match="categorical columns do not have"):
            sample(network(3), np.round(X), categorical_features=[0])

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n_untargeted": 0}, "n_untargeted=0 must be at least 1"),
            ({"n_targeted": 0}, "n_targeted=0 must be at least 1"),
            ({"norm": "l1"}, "norm='l1' is not one of 'linf', 'l2'"),
            ({"radii": []}, "radii=.* must be a list of numbers greater than 0"),
            ({"radii": [0.1, 0.0]}, "radii=.* must be a list of numbers greater than 0"),
            ({"n_steps": 0}, "n_steps=0 must be at least 1"),
            ({"n_approach": -1}, "n_approach=-1 must be at least 0"),
            ({"bounds": "auto"}, "bounds='auto' is not one of 'data'"),
            ({"bounds": 1.0}, "must be 'data' or a pair"),
            ({"bounds": (1.0, -1.0)}, "first end below its second"),
            ({"bounds": (-0.5, 0.5)}, "all rows between them"),
            ({"bounds": (np.zeros(3), np.ones(3))}, "bounds has an end of shape"),
            ({"tolerance": 0.0}, "tolerance=0.0 must be"),
        ],
    )
    def test_bad_parameters(self, options, message):
        with pytest.raises(InputError, match=message):
            sample(network(3), sampler=AdversarialSampler(**{**SMALL, **options}))


def test_it_is_nearer_to_the_data_than_bisection_of_random_pairs():
    module, rows = network(3, inputs=40), np.random.default_rng(2).normal(size=(600, 40))
    adversarial = sample(module, rows, AdversarialSampler(**SMALL, norm="l2")).points
    random = BisectionSampler("random").sample(module, rows, 100, random_state=0, progress=False).points

    def median_distance(points):
        return np.median(cdist(points, rows).min(axis=1))

    assert median_distance(adversarial) < 0.8 * median_distance(random)


def test_gpec_takes_it_and_saves_it(tmp_path):
    module = network(3)
    sampler = AdversarialSampler(**SMALL)
    before = copy.deepcopy(vars(sampler))
    g = gpec.GPEC(
        module, lambda rows: np.repeat(np.asarray(rows)[:, :, None], 3, axis=2), boundary=sampler,
        n_explained=30, random_state=0,
    )  # fmt: skip
    e = g.fit(X).explain(X[:4])
    assert vars(sampler) == before
    assert e.values.shape == (4, 5, 3)
    g.save(tmp_path / "net.gpec")
    h = gpec.GPEC.load(tmp_path / "net.gpec", model=module)
    assert np.array_equal(h.boundary_.points, g.boundary_.points)
    assert h.boundary_.attacks == g.boundary_.attacks
    assert h.boundary_.attacks.attempts > 3 * 30
    before, after = (one.explain(X[:4], attribution="posterior").variance for one in (g, h))
    assert np.array_equal(after, before)


def test_parameters_survive_cloning():
    sampler = AdversarialSampler(7, 8, norm="l2", radii=(0.1,), n_steps=3, bounds=(0, 1), tolerance=1e-3)
    assert clone(sampler).get_params() == sampler.get_params()


def test_500_rows_of_each_class_are_attacked_unless_told():
    rows = np.random.default_rng(0).normal(size=(1_400, 2))
    found = sample(linear_module([3.0, 1.0]), rows, AdversarialSampler(), 50, model_output="logit")
    assert found.attacks.attempts == 2 * 500


def test_report():
    assert AttackReport((0.1, 0.2), (3, 4), 10).failures == 3


# A network that is undecided in a whole region, as rectifiers make it


class Disc(nn.Module):
    """The logit is positive within the unit circle, and exactly 0 outside: class 0, by a tie."""

    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(5.0))

    def forward(self, x):
        return self.slope * torch.relu(1 - (x**2).sum(dim=1, keepdim=True))


def rows_and_partners(n=200):
    rng = np.random.default_rng(0)
    angle, inside = rng.uniform(0, 2 * np.pi, n), rng.uniform(-0.5, 0.5, (n, 2))
    return rng.uniform(1.2, 1.9, n)[:, None] * np.column_stack((np.cos(angle), np.sin(angle))), inside


def test_partners_that_come_nearer_do_not_stop_at_a_tie():
    rows, partners = rows_and_partners()
    model = judge(Disc(), np.concatenate((rows, partners)), model_output="logit")
    np.testing.assert_array_equal(model.labels(np.concatenate((rows, partners))), np.repeat([0, 1], len(rows)))
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
    found = sample(Disc(), np.concatenate((rows, inside)), sampler, model_output="logit")
    np.testing.assert_allclose(np.linalg.norm(found.points, axis=1), 1.0, atol=1e-5)
    assert len(found) == sum(found.attacks.successes)
