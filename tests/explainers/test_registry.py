"""The explainer for a name, an object or a function."""

import numpy as np
import pytest
import shap
from explainer_helpers import fitted

from gpec.errors import InputError, ParameterTypeError
from gpec.explainers import CallableExplainer, KernelShap, ShapAdapter, ShapKernel, TreeShap, make_explainer


def test_names():
    assert type(make_explainer("kernelshap")) is KernelShap
    assert type(make_explainer("tree")) is TreeShap
    assert type(make_explainer("cxplain")).__name__ == "CXPlain"
    assert make_explainer("captum:Saliency").method == "Saliency"
    with pytest.raises(InputError, match=r"explainer='nonsense' is not one of \[.*\].*X -> \(n, d\)") as error:
        make_explainer("nonsense")
    for name in ("'kernelshap'", "'tree'", "'cxplain'", "'captum:<Name>'"):
        assert name in str(error.value)


def test_named_explainers_are_made_anew_and_checked(monkeypatch):
    assert make_explainer("tree") is not make_explainer("tree")
    monkeypatch.setattr(TreeShap, "check", lambda self: (_ for _ in ()).throw(InputError("not today")))
    with pytest.raises(InputError, match="not today"):
        make_explainer("tree")


def test_functions_and_shap_objects(forests):
    assert type(make_explainer(lambda X: X)) is CallableExplainer
    assert type(make_explainer(np.asarray)) is CallableExplainer
    assert type(make_explainer(shap.TreeExplainer(forests[2]))) is ShapAdapter


def test_which_are_cheap_is_known_before_they_see_a_model(forests, X):
    background = np.asarray(X[:5])
    cheap = ["tree", shap.TreeExplainer(forests[2]), CallableExplainer(np.asarray, cheap=True)]
    assert all(make_explainer(each).cheap for each in cheap)
    others = ["kernelshap", "exact", "lime", "cxplain", np.asarray, shap.ExactExplainer(np.asarray, background)]
    assert not any(make_explainer(each).cheap for each in others)
    assert make_explainer(shap.LinearExplainer((np.ones(X.shape[1]), 0.0), background)).cheap
    with pytest.raises(InputError, match="cheap='yes' is not one of True, False"):
        make_explainer(CallableExplainer(np.asarray, cheap="yes"))


@pytest.mark.parametrize("explainer", [ShapKernel, shap.TreeExplainer, dict])
def test_a_class_is_not_an_explainer(explainer):
    with pytest.raises(ParameterTypeError, match=f"explainer is the class {explainer.__name__}; pass an instance"):
        make_explainer(explainer)


@pytest.mark.parametrize("explainer", [3, None, [1]])
def test_other_things_are_not_explainers(explainer):
    with pytest.raises(ParameterTypeError, match=f"explainer must be.*got {type(explainer).__name__}"):
        make_explainer(explainer)


class Uncopyable:
    """An explainer that holds a lock, say, and counts its calls."""

    def __init__(self):
        self.n_calls = 0

    def __call__(self, X):
        self.n_calls += 1
        return np.asarray(X)

    def __deepcopy__(self, memo):
        raise TypeError("cannot be copied")


@pytest.mark.parametrize("wrap", [lambda function: function, CallableExplainer])
def test_users_function_is_used_not_copied(models, X, wrap):
    function = Uncopyable()
    explainer = fitted(wrap(function), models.curved, X)
    explainer(X[:3])
    assert function.n_calls == 1


def test_users_object_is_left_alone(models, X):
    own = ShapKernel(n_samples=20)
    explainer = fitted(own, models.curved, X)
    assert explainer is not own
    assert explainer.n_samples == 20
    assert vars(own) == {"n_samples": 20, "link": "identity"}


def test_explanation_without_rows():
    with pytest.raises(InputError, match=r"shap\.Explanation without its rows; set its data"):
        make_explainer(shap.Explanation(values=np.zeros((2, 2))))
