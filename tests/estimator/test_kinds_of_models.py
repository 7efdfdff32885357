"""Models of every kind: networks, boosters, logits, pipelines over texts."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from extras import torch, xgboost
from gpec.data import Schema
from gpec.explainers import TreeShap


def test_torch_module(make, models, X):
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2)
    ).train()
    g = make(net).fit(X)
    assert g.explain(X[:3]).shape == (3, 3)
    assert net.training  # left as it was
    before, beyond = g.boundary_.ends()
    net.eval()
    labels = [net(torch.as_tensor(end, dtype=torch.float32)).argmax(1).numpy() for end in (before, beyond)]
    assert (labels[0] != labels[1]).all()


def test_booster(make, X):
    y = X[:, 0] + X[:, 1] ** 2 > 0.5
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=2).fit(X, y)
    e = make(model.get_booster(), TreeShap(link="identity"), n_explained=5, n_boundary=20).fit(X).explain(X[:3])
    expected = model.predict_proba(X[:3])[:, 1]
    np.testing.assert_allclose(e.values.sum(axis=1) + e.base_values, expected, atol=1e-5)


def test_logits_and_threshold(make, X):
    def logits(X):
        return 3.0 * X[:, 0] - 1.0

    g = make(logits, model_output="logit").fit(X)
    np.testing.assert_allclose(g.boundary_.points[:, 0], 1 / 3, atol=1e-5)
    g = make(logits, model_output="logit", threshold=0.9).fit(X)
    np.testing.assert_allclose(g.boundary_.points[:, 0], (1 + np.log(9)) / 3, atol=1e-5)
    g = make(lambda X: expit(logits(X)), threshold=0.9).fit(X)
    np.testing.assert_allclose(g.boundary_.points[:, 0], (1 + np.log(9)) / 3, atol=1e-5)


def test_strings_through_a_pipeline(make):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "colour": rng.choice(["blue", "green", "red"], 300),
            "shape": rng.choice(["cone", "cube", "ring", "rod"], 300),
            "maker": rng.choice(["A", "B", "C", "D", "E"], 300),
        }
    )
    score = (frame["colour"] == "red") * 2.0 + (frame["shape"] == "cube") * 1.0 - (frame["maker"] == "C") * 1.5
    sold = np.where(score > 0.5, "sold", "kept")
    model = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(frame, sold)
    g = make(model, n_explained=20, explainer="kernelshap", n_boundary=40, background=5).fit(frame)
    e = g.explain(frame[:5])
    assert e.feature_names == ["colour", "shape", "maker"]
    assert e.output_names == "sold"
    assert g.classes_.tolist() == ["kept", "sold"]
    assert g.feature_names_in_.tolist() == ["colour", "shape", "maker"]
    np.testing.assert_allclose(e.values.sum(axis=1) + e.base_values, model.predict_proba(frame[:5])[:, 1], atol=1e-8)
    assert e.data[0].tolist() == frame.iloc[0].tolist()
    assert np.isfinite(e.variance).all()
    assert set(g.X_explained_["colour"]) <= {"blue", "green", "red"}
    assert e[:, "shape"].to_frame()["data"].tolist() == frame["shape"][:5].tolist()
    # every point lies where a change of one category changes the class
    assert (g.boundary_.switched >= 0).all()


def test_mixed_columns(make, mixed):
    g = make(mixed.model, lambda frame: np.column_stack([frame["price"]] * 5), n_boundary=80).fit(mixed.frame)
    e = g.explain(mixed.frame[:6])
    assert e.shape == (6, 5)
    assert e.data[:, 0].tolist() == mixed.frame["colour"][:6].tolist()
    assert list(g.X_explained_.dtypes) == list(mixed.frame.dtypes)
    schema, _ = Schema.learn(mixed.frame)
    before, beyond = (mixed.model.predict(schema.decode(end)) for end in g.boundary_.ends())
    assert (before != beyond).all()


# One shape inside

SHAPES = {
    "(n,)": lambda p: p,
    "(n, 1)": lambda p: p[:, None],
    "(n, 2)": lambda p: np.column_stack((1 - p, p)),
}
LOGIT_SHAPES = {**SHAPES, "(n, 2)": lambda s: np.column_stack((0 * s, s))}


def everything(g, X):
    """All arrays that a user sees of a fit and of its explanations, by name."""
    parts = {"points": g.boundary_.points, "label": g.boundary_.label, "distances": g.graph_.distances}
    parts |= {f"attributions {name}": value for name, value in vars(g.attributions_).items()}
    for attribution in ("explainer", "posterior"):
        e = g.explain(X[:6], attribution=attribution)
        names = ("values", "model_variance", "noise_variance", "lower", "upper", "explainer_variance", "base_values")
        parts |= {f"{attribution} {name}": getattr(e, name) for name in names}
        parts[f"{attribution} names"] = np.array([e.output_names])
    return {name: None if part is None else (part.shape, part.tobytes()) for name, part in parts.items()}


@pytest.mark.parametrize("explainer", ["kernelshap", "lime", "callable"])
@pytest.mark.parametrize("model_output", ["probability", "logit"])
def test_two_classes_in_any_shape_give_the_same_bits(make, models, X, explainer, model_output):
    def fit(shape):
        def model(X):
            score = np.asarray(X) @ models.W
            return shape(expit(score) if model_output == "probability" else score)

        chosen = models.slopes if explainer == "callable" else explainer
        return make(model, chosen, n_explained=5, n_boundary=30, model_output=model_output, noise=0.01).fit(X)

    found = [
        everything(fit(shape), X) for shape in (SHAPES if model_output == "probability" else LOGIT_SHAPES).values()
    ]
    assert found[0]["explainer values"][0] == (6, 3)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("own_variance", [False, True])
def test_attributions_of_two_classes_in_any_shape_give_the_same_bits(make, models, X, own_variance):
    def explainer(shape):
        return lambda X: (shape(models.slopes(X)), shape(0.01 + X**2)) if own_variance else shape(models.slopes(X))

    shapes = (lambda a: a, lambda a: a[:, :, None], lambda a: np.stack((-a, a), -1), lambda a: [0 * a, a])
    if own_variance:
        shapes = shapes[:-1]  # a list of two would be read as values and variance
    found = [everything(make(explainer=explainer(shape)).fit(X), X) for shape in shapes]
    assert all(other == found[0] for other in found[1:])
