"""Models and explainers that fail, lie, spoil their input or change their mind."""

import re
import signal
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from extras import torch
from gpec.errors import BatchSizeWarning, ExplainerError, InputError, ModelCallError, ModelOutputError

EXPLAINERS = ["callable", "kernelshap"]


def two_columns(models):
    def model(X):
        p = models.curved(X)
        return np.column_stack((1 - p, p))

    return model


@pytest.fixture
def small(make, models):
    """``small(model, kind)``: a GPEC whose fit makes few calls to the model."""

    def build(model, kind="callable", **changes):
        explainer = models.slopes if kind == "callable" else kind
        return make(model, explainer, n_boundary=10, n_explained=3, background=4, **changes)

    return build


@pytest.fixture
def calls_of_a_good_run(small, models, counting, X):
    """How many calls fit and explain make, by kind of explainer."""

    def count(kind):
        model = counting(two_columns(models))
        g = small(model, kind).fit(X)
        of_fit = model.n_calls
        g.explain(X[:2])
        return of_fit, model.n_calls - of_fit

    return count


def assert_nothing_left(g, X):
    assert not [name for name in vars(g) if name.endswith("_") or name.startswith("_")]
    with pytest.raises(NotFittedError, match=r"^This GPEC is not fitted yet"):
        g.explain(X[:2])


class TiredError(Exception):
    pass


@pytest.mark.parametrize("kind", EXPLAINERS)
def test_model_raises_on_every_call(small, models, counting, calls_of_a_good_run, X, kind, capsys):
    of_fit, of_explain = calls_of_a_good_run(kind)
    assert 10 <= of_fit < 100
    assert (of_explain > 0) == (kind == "kernelshap")
    for k in range(1, of_fit + of_explain + 1):

        def before(call, X, k=k):
            if call == k:
                raise TiredError(f"after {call} calls")

        model = counting(two_columns(models), before=before)
        g = small(model, kind)
        if k <= of_fit:
            with pytest.raises(
                ModelCallError, match=rf"raised TiredError on call {k} \(rows .*: after {k} calls"
            ) as error:
                g.fit(X)
            assert_nothing_left(g, X)
        else:
            g.fit(X)
            with pytest.raises(ModelCallError, match=f"raised TiredError on call {k} ") as error:
                g.explain(X[:2])
        assert isinstance(error.value.__cause__, TiredError)
        assert model.n_calls == k
    model.before = None
    assert g.fit(X).explain(X[:2]).shape == (2, 3)  # as if nothing had been


@pytest.mark.parametrize("kind", EXPLAINERS)
@pytest.mark.parametrize("how", ["raised", "signal"])
def test_interrupt_on_every_call(small, models, counting, calls_of_a_good_run, X, kind, how, capsys):
    of_fit, of_explain = calls_of_a_good_run(kind)
    steps = range(1, of_fit + of_explain + 1) if how == "raised" else (1, 2, of_fit // 2, of_fit)
    for k in steps:
        pressed = []

        def before(call, X, k=k, pressed=pressed):
            if call == k:
                pressed.append(time.perf_counter())
                if how == "signal":
                    signal.raise_signal(signal.SIGINT)  # Ctrl-C
                raise KeyboardInterrupt

        g = small(counting(two_columns(models), before=before), kind)
        with pytest.raises(KeyboardInterrupt):
            g.fit(X).explain(X[:2])
        assert time.perf_counter() - pressed[0] < 2.0
        if k <= of_fit:
            assert_nothing_left(g, X)


@pytest.mark.parametrize("error", [TiredError, KeyboardInterrupt])
def test_model_fails_on_every_call_of_a_refit(small, models, counting, X, error):
    """A refit asks less of the model; wherever it fails, the earlier fit is gone, too."""
    model = counting(two_columns(models))
    g = small(model, "kernelshap").fit(X)
    model.n_calls = 0
    g.set_params(n_explained=5).fit(X)
    calls = model.n_calls
    expected = g.explain(X[:2])
    assert 4 <= calls < 20
    for k in range(1, calls + 1):
        g = small(model, "kernelshap").fit(X)

        def before(call, X, k=k):
            if call == k:
                raise error("enough")

        model.n_calls, model.before = 0, before
        with pytest.raises(ModelCallError if error is TiredError else error, match="enough"):
            g.set_params(n_explained=5).fit(X)
        assert_nothing_left(g, X)
        model.before = None
        np.testing.assert_array_equal(g.fit(X).explain(X[:2]).variance, expected.variance)


def test_interrupt_forgets_an_earlier_fit(small, models, counting, X):
    model = counting(models.curved)
    g = small(model).fit(X)

    def before(call, X):
        raise KeyboardInterrupt("pressed")

    model.before = before
    with pytest.raises(KeyboardInterrupt, match="pressed"):
        g.fit(X)
    assert_nothing_left(g, X)


def answers(value):
    """Two columns of probabilities with one entry replaced."""

    def after(X, p):
        p = p.copy()
        p[len(p) // 2, 1] = value
        return p

    return after


def spoiled(X, p):
    X[len(X) // 2, 0] += 1.0
    return p


FAULTS = {
    "NaN": (answers(np.nan), "returned nan"),
    "infinite": (answers(np.inf), "returned inf"),
    "minus infinite": (answers(-np.inf), "returned -inf"),
    "no probability": (answers(1.5), "returned 1.5 .* model_output='logit'"),
    "a negative probability": (answers(-0.1), "returned -0.1 .* model_output='logit'"),
    "one row too few": (lambda X, p: p[1:], "returned shape"),
    "one row too many": (lambda X, p: np.vstack((p, p[:1])), "returned shape"),
    "transposed": (lambda X, p: np.vstack((p, p, p)).T, "returned shape|columns"),
    "nothing": (lambda X, p: None, "returned a NoneType"),
    "texts": (lambda X, p: p.astype(str), "returned a ndarray .* not an array of numbers"),
    "objects": (lambda X, p: p.astype(object), "not an array of numbers"),
    "complex": (lambda X, p: p + 0j, "not an array of numbers"),
    "a dict": (lambda X, p: {"p": p}, "returned a dict"),
    "masked": (lambda X, p: np.ma.array(p, mask=p == p[len(p) // 2]), "returned a MaskedArray .* masked values"),
    "ragged": (lambda X, p: [[0.1], [0.1, 0.2]], "returned a list"),
    "three dimensions": (lambda X, p: p[:, :, None], "returned shape"),
    "a number": (lambda X, p: 0.5, "returned shape"),
    "no columns": (lambda X, p: p[:, :0], "returned shape"),
    "gradients": (lambda X, p: torch.as_tensor(p).requires_grad_(True), "not an array of numbers"),
    "spoiled input": (spoiled, "changed its input rows"),
}


@pytest.mark.parametrize("kind", EXPLAINERS)
@pytest.mark.parametrize("fault", FAULTS)
def test_model_that_fails_on_some_call(small, models, counting, calls_of_a_good_run, X, kind, fault, capsys):
    answer, message = FAULTS[fault]
    of_fit, of_explain = calls_of_a_good_run(kind)
    steps = {1, 2, 3, of_fit // 2, of_fit, of_fit + of_explain} if kind == "kernelshap" else {1, of_fit // 2, of_fit}
    for k in sorted(steps):

        def after(call, X, p, k=k):
            return answer(X, p) if call == k else p

        g = small(counting(two_columns(models), after=after), kind)
        with pytest.raises(ModelOutputError, match=message) as error:
            g.fit(X).explain(X[:2])
        assert f"call {k}" in str(error.value)
        if fault in ("NaN", "infinite", "minus infinite", "no probability", "spoiled input"):
            assert "row " in str(error.value)
        if k <= of_fit:
            assert_nothing_left(g, X)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite(small, counting, X, value):
    def after(call, X, scores):
        scores[len(X) // 2] = value if call == 5 else scores[len(X) // 2]
        return scores

    g = small(counting(lambda X: X[:, 0] * 9.0, after=after), model_output="logit")
    with pytest.raises(ModelOutputError, match=rf"returned {value} on call 5, row \d+"):
        g.fit(X)
    assert_nothing_left(g, X)


@pytest.mark.parametrize("columns", [1, 3, 4])
def test_number_of_columns_changes(small, models, counting, X, columns):
    def after(call, X, p):
        return np.column_stack([p[:, 1]] * columns) if call == 4 else p

    with pytest.raises(ModelOutputError, match=rf"returned {columns} columns on call 4 but 2 before"):
        small(counting(two_columns(models), after=after)).fit(X)


def test_threshold_for_several_classes(small, models, X):
    with pytest.raises(InputError, match=r"threshold=0.7 with a model of 3 classes"):
        small(models.three_classes, threshold=0.7).fit(X)


def test_spoiled_frame(make, models, X):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    before = frame.copy()

    def model(rows):
        p = models.curved(rows.to_numpy())
        rows["d"] = 1.0
        return p

    with pytest.raises(ModelOutputError, match="changed its input rows"):
        make(model).fit(frame)
    pd.testing.assert_frame_equal(frame, before)


# A model that changes its mind


CHANGES = {
    "drifts": lambda call, X, p: p * (1 - 1e-3 * call),
    "jumps once": lambda call, X, p: p if call < 8 else np.clip(p + 0.05, 0, 1),
    "is random": lambda call, X, p: np.clip(p + np.random.default_rng(call).normal(scale=0.1, size=p.shape), 0, 1),
    "forgets": lambda call, X, p: p if call < 20 else np.full_like(p, 0.2),
    "turns around": lambda call, X, p: p if call < 20 else 1 - p,
}


@pytest.mark.parametrize("change", CHANGES)
def test_model_that_changes_its_answers(make, models, counting, X, change):
    model = counting(models.curved, after=CHANGES[change])
    g = make(model)
    with pytest.raises(ModelOutputError, match=r"changed its answer to the same row by .*deterministic") as error:
        g.fit(X)
    assert f"call {model.n_calls}, row " in str(error.value)
    assert_nothing_left(g, X)


@pytest.mark.parametrize("size", [0.5, 1e-3])
def test_answers_that_depend_on_the_batch(make, models, counting, X, size):
    """As with batch normalisation in training mode: an error if they differ much, else a warning."""
    model = counting(models.curved, after=lambda call, X, p: np.clip(p + size * np.tanh(X.mean()), 0, 1))
    match = r"The model's answer to row \d+ differs by \S+ if other rows are asked with it"
    if size == 0.5:
        with pytest.raises(ModelOutputError, match=match):
            make(model).fit(X)
    else:
        with pytest.warns(BatchSizeWarning, match=match):
            make(model).fit(X)


def test_dropout_left_on(make, X):
    """A callable around a network in training mode."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.Dropout(0.5), torch.nn.Linear(32, 1), torch.nn.Sigmoid())
    net.train()

    def model(X):
        with torch.no_grad():
            return net(torch.as_tensor(X, dtype=torch.float32)).numpy()

    with pytest.raises(ModelOutputError, match="changed its answer to the same row"):
        make(model).fit(X)


def test_rounding_is_no_change_of_mind(make, models, counting, X):
    model = counting(models.curved, after=lambda call, X, p: np.clip(p + 1e-8 * call, 0, 1))
    assert make(model).fit(X).explain(X[:2]).shape == (2, 3)


# Explainers


BAD_EXPLAINERS = {
    "NaN": (lambda X: np.full(X.shape, np.nan), "has nan at row 0, feature 0"),
    "wrong shape": (lambda X: X[:, :2], "has shape"),
    "nothing": (lambda X: None, "it is None"),
    "masked": (lambda X: np.ma.masked_array(X, X.mean() < X), "it has masked values"),
    "negative variance": (lambda X: (X, -np.ones(X.shape)), "negative"),
}


@pytest.mark.parametrize("case", BAD_EXPLAINERS)
def test_explainer_that_answers_nonsense(make, X, case):
    explainer, message = BAD_EXPLAINERS[case]
    g = make(explainer=explainer)
    with pytest.raises(ExplainerError, match=message):
        g.fit(X)
    assert_nothing_left(g, X)


@pytest.mark.parametrize("error", [TiredError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("noise", ["auto", "resample"])
def test_explainer_that_raises(make, models, X, error, noise):
    def failing(k):
        state = {"calls": 0}

        def explainer(X):
            state["calls"] += 1
            if state["calls"] == k:
                raise error("enough")
            return models.slopes(X)

        return explainer

    # auto: once for the rows, once more to see whether it is stochastic; resample: three runs
    for k in (1, 2) if noise == "auto" else (1, 2, 3):
        g = make(explainer=failing(k), noise=noise, n_resamples=3)
        expected = ExplainerError if error is TiredError else error
        with pytest.raises(expected, match="enough") as raised:
            g.fit(X)
        if error is TiredError:
            assert isinstance(raised.value.__cause__, TiredError)
        assert_nothing_left(g, X)
    last = 3 if noise == "auto" else 4
    g = make(explainer=failing(last), noise=noise, n_resamples=3).fit(X)
    with pytest.raises(expected, match="enough"):
        g.explain(X[:2])
    assert g.explain(X[:2]).shape == (2, 3)  # it stays fitted


def test_explainer_that_spoils_its_rows(make, models, X):
    def explainer(rows):
        values = models.slopes(rows)
        rows[:] = 0.0
        return values

    expected = make().fit(X).explain(X[:4])
    found = make(explainer=explainer).fit(X).explain(X[:4])
    np.testing.assert_array_equal(found.variance, expected.variance)
    np.testing.assert_array_equal(found.data, expected.data)


def test_explainer_that_uses_one_array_again_and_again(make, models, X):
    store = np.zeros((200, 3))

    def explainer(rows):
        store[: len(rows)] = models.slopes(rows)
        return store[: len(rows)]

    expected = make().fit(X)
    g = make(explainer=explainer).fit(X)
    first = g.explain(X[:4])
    g.explain(X[4:8])
    np.testing.assert_array_equal(first.values, models.slopes(X[:4]))
    np.testing.assert_array_equal(g.attributions_.values, expected.attributions_.values)


def test_model_inside_a_shap_object_that_fails(make, models, counting, X, capsys):
    import shap

    state = {"on": False}

    def fragile(X):
        if state["on"]:
            raise TiredError("inside shap")
        return models.curved(X)

    g = make(explainer=shap.KernelExplainer(fragile, X[:4]), n_explained=3).fit(X)
    state["on"] = True
    with pytest.raises(ExplainerError, match="raised TiredError on rows 0 to 0 of 2: inside shap") as error:
        g.explain(X[:2])
    assert isinstance(error.value.__cause__, TiredError)


def raising(rows):
    raise ValueError("not there")


def spoiling(rows):
    rows[:] = 0.0
    return np.full(len(rows), 0.5)


WRONG_THERE = {
    "raises": raising,
    "nan": lambda rows: np.full(len(rows), np.nan),
    "no probability": lambda rows: np.full(len(rows), 3.0),
    "sums": lambda rows: np.full((len(rows), 2), 0.1),
    "columns": lambda rows: np.full((len(rows), 3), 1 / 3),
    "shape": lambda rows: np.zeros((1, 1, 1)),
    "texts": lambda rows: np.full(len(rows), "a"),
    "spoils": spoiling,
}


@pytest.mark.parametrize("wrong", WRONG_THERE)
def test_the_reason_tells_neither_call_nor_row(small, models, X, wrong):
    """So the rows of a large table that cannot be explained have the same reason in every run."""

    def model(rows):
        there = rows[:, 0] > 5.0
        return WRONG_THERE[wrong](rows) if there.any() else two_columns(models)(rows)

    g = small(model, "kernelshap").fit(X)
    rows = np.where(np.arange(3) == 0, 9.0, X[:1])
    errors = []
    for _ in range(2):
        with pytest.raises((ModelCallError, ModelOutputError), match="while explaining row 0") as caught:
            g.explain(rows)
        errors.append(caught.value)
    first, second = errors
    assert str(first) != str(second)
    assert first.reason == second.reason
    assert all(place in str(first) for place in first.places)
    assert not re.search(r"call \d|rows? \d", first.reason)
