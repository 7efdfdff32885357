"""The same checks on every public class: exports, parameters, clones, docstrings, scikit-learn's own checks."""

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import warnings
from functools import partial, wraps

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.utils import estimator_checks

import gpec
from check_all import check_all
from extras import MISSING
from gpec.boundary import AdversarialSampler, BisectionSampler, LevelSetSampler, Sampler
from gpec.data import Rows, Schema
from gpec.explainers import (
    BayesLime,
    BayesShap,
    CallableExplainer,
    CaptumAdapter,
    CXPlain,
    ExactShapley,
    Explainer,
    KernelShap,
    Lime,
    Precomputed,
    ShapAdapter,
    ShapKernel,
    ShapleySampling,
    TreeShap,
)
from gpec.geometry import GeodesicGraph
from gpec.gp import LeaveOneOut, Posterior
from gpec.images import SuperpixelExplainer
from gpec.intervals.rules import IntervalRule, Latent
from gpec.kernels import EG, RBF, WEG, Between, Effect, Kernel, Matern, Output, Own, Product, Rest, Scaled, Sum
from gpec.models import Model
from gpec.similar import MeasurementError, NearestRows, Similar, SimilarFunction

# Modules that run when imported; they hold no classes.
NOT_IMPORTED = ("gpec.__main__", "gpec.cli")


def modules():
    for info in pkgutil.walk_packages(gpec.__path__, "gpec."):
        if not info.name.startswith(NOT_IMPORTED):
            try:
                yield importlib.import_module(info.name)
            except ImportError:
                if not MISSING:
                    raise


def classes():
    """Every class defined in the package, by its full name; underscores left out."""
    found = {}
    for module in modules():
        for name, value in vars(module).items():
            if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_"):
                found[f"{module.__name__}.{name}"] = value
    return found


def is_private(name):
    """Whether it lies in a room that users do not meet, or a name on the way to it starts with an underscore."""
    return any(part.startswith("_") or part in ("pipeline", "runtime") for part in name.split("."))


def room(cls):
    """The package that a class belongs to, or its module where that stands beside the packages."""
    return importlib.import_module(".".join(cls.__module__.split(".")[:2]))


CLASSES = classes()
PUBLIC = {name: cls for name, cls in CLASSES.items() if not is_private(name)}
CONFIGURED = {name: cls for name, cls in PUBLIC.items() if hasattr(cls, "get_params") and not inspect.isabstract(cls)}
# classes with parameters may be dataclasses too, but scikit-learn's set_params must be able to change them
DATA = {name: cls for name, cls in PUBLIC.items() if dataclasses.is_dataclass(cls) and not hasattr(cls, "get_params")}


def probability(X):
    """A model with many pieces of boundary wherever the rows lie."""
    X = np.asarray(X, dtype=np.float64)
    return 1 / (1 + np.exp(-8 * np.sin(200 * X[:, 0])))


def as_float(X):
    return np.asarray(X, dtype=np.float64)


def make_gpec():
    return gpec.GPEC(
        probability,
        as_float,
        n_boundary=20,
        n_explained=10,
        background=5,
        boundary=BisectionSampler(rows="box"),
        random_state=0,
        progress=False,
    )


# One of each class that has parameters, none of them at its default.
EXAMPLES = {
    gpec.GPEC: make_gpec,
    AdversarialSampler: lambda: AdversarialSampler(
        7, 8, norm="l2", radii=(0.1,), n_steps=3, bounds=(0, 1), n_approach=2, tolerance=1e-3
    ),
    BisectionSampler: lambda: BisectionSampler(pairing="random", rows="box", tolerance=1e-3, n_walk=3),
    LevelSetSampler: lambda: LevelSetSampler((0.2, 0.8), pairing="random", rows="box", tolerance=1e-3, n_walk=3),
    EG: lambda: EG(lam=2.0),
    WEG: lambda: WEG(lam=2.0, rho=3.0, normalize=False),
    RBF: lambda: RBF(lengthscale=2.0),
    Sum: lambda: WEG() + RBF(),
    Product: lambda: WEG() * RBF(),
    Scaled: lambda: 2.0 * RBF(),
    Own: lambda: Own(2.0),
    Rest: lambda: Rest(2.0),
    Effect: lambda: Effect(2.0, n_rows=2),
    Output: lambda: Output(2.0),
    Between: lambda: Between(RBF(), 2.0),
    NearestRows: lambda: NearestRows(3, step=0.2, fixed=["age"]),
    MeasurementError: lambda: MeasurementError({"age": 2.0}, n_draws=4, random_state=1),
    SimilarFunction: lambda: SimilarFunction(as_float),
    CallableExplainer: lambda: CallableExplainer(as_float),
    ShapAdapter: lambda: ShapAdapter(as_float),
    KernelShap: lambda: KernelShap(n_samples=7),
    TreeShap: TreeShap,
    BayesLime: lambda: BayesLime(
        9,
        kernel_width=2.0,
        around="row",
        sampling="focused",
        target_width=0.1,
        max_samples=99,
        prior=2.0,
        temperature=0.1,
    ),
    BayesShap: lambda: BayesShap(
        9, n_background=2, sampling="focused", target_width=0.1, max_samples=99, prior=2.0, temperature=0.1
    ),
    CXPlain: lambda: CXPlain(2, n_train=10, truth="label", hidden=8, n_epochs=3, image_shape=(2, 2), patch=1),
    CaptumAdapter: lambda: CaptumAdapter("Saliency", options={"abs": False}),
    ExactShapley: ExactShapley,
    Lime: lambda: Lime(9, kernel_width=2.0, around="row", alpha=2.0),
    Precomputed: lambda: Precomputed([[0.0, 1.0]], [[2.0, 3.0]], [[4.0, 5.0]], [6.0]),
    ShapKernel: lambda: ShapKernel(n_samples=7),
    ShapleySampling: lambda: ShapleySampling(n_permutations=7),
    SuperpixelExplainer: lambda: SuperpixelExplainer(
        "lime", n_segments=3, compactness=1.0, segments=[[0, 1]], baseline=0.0, image_shape=(1, 2)
    ),
}


# Made of any number of terms, whose names are parameters: tests/kernels/test_matern.py checks them.
VARIABLE = {Matern}


def on_each(group):
    """The decorated check as one test of all classes in ``group``, by name."""

    def decorate(check):
        @wraps(check)
        def test():
            check_all(group.items(), check)

        del test.__wrapped__  # pytest would take the check's argument for a fixture
        return test

    return decorate


def test_all_offenders_are_named():
    def check(number):
        assert number < 2, f"{number} is large"

    check_all([("one", 1)], check)
    with pytest.raises(AssertionError, match=r"(?s)^2 of 3 failed:\ntwo: AssertionError: 2.*\nthree: Assertion"):
        check_all([("one", 1), ("two", 2), ("three", 3)], check)
    with pytest.raises(AssertionError, match="nothing to check"):
        check_all([], check)


# Exports


def test_the_walk_finds_the_classes():
    assert {gpec.GPEC, gpec.Explanation, BisectionSampler, WEG, KernelShap} <= set(PUBLIC.values())
    assert {Rows, Schema, Model, GeodesicGraph, LeaveOneOut, Posterior, IntervalRule, Latent} <= set(PUBLIC.values())
    assert {Rows, Schema, LeaveOneOut, gpec.Attribution, gpec.BoundarySample} <= set(DATA.values())
    assert len(CONFIGURED) >= 12


@on_each(PUBLIC)
def test_exported_by_its_room(cls):
    where = room(cls)
    assert cls.__name__ in where.__all__, f"{cls.__name__} is public but not in {where.__name__}.__all__"
    assert getattr(where, cls.__name__) is cls


def test_classes_of_the_package_itself_are_public():
    for name, cls in vars(gpec).items():
        if inspect.isclass(cls) and cls.__module__.startswith("gpec."):
            assert name in gpec.__all__
            assert cls in PUBLIC.values()


def test_private_names():
    assert is_private("gpec.runtime.progress.Clock")
    assert is_private("gpec.gp._gram.Gram")
    assert is_private("gpec.explainers.captum._Method")
    assert not is_private("gpec.kernels.weg.WEG")


@on_each({module.__name__: module for module in modules()})
def test_all_holds_what_there_is(module):
    assert module.__doc__, f"{module.__name__} has no docstring"
    names = getattr(module, "__all__", [])
    assert len(set(names)) == len(names)
    for name in names:
        assert hasattr(module, name), f"{module.__name__}.__all__ names {name}, which is not there"


def test_roles_have_a_base_class():
    for name, cls in CONFIGURED.items():
        base = {"boundary": Sampler, "kernels": Kernel, "explainers": Explainer, "similar": Similar}.get(
            name.split(".")[1]
        )
        assert base is None or issubclass(cls, base), name
    for name, cls in PUBLIC.items():
        assert not name.startswith("gpec.intervals.rules.") or issubclass(cls, IntervalRule), name


# Documentation


@on_each(CLASSES)
def test_docstring(cls):
    assert cls.__doc__
    summary = cls.__doc__.strip().splitlines()[0]
    assert len(summary) > 10
    assert not cls.__doc__.startswith(f"{cls.__name__}(")  # what dataclass writes when there is none


@on_each(CONFIGURED)
def test_public_methods_are_documented(cls):
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_") and method.__module__.startswith("gpec"):
            assert inspect.getdoc(method) or name == "is_stationary", f"{cls.__name__}.{name} has no docstring"


# Errors


@on_each({name: getattr(gpec.errors, name) for name in gpec.errors.__all__})
def test_errors(kind):
    name = kind.__name__
    if name.endswith("Warning"):
        assert issubclass(kind, UserWarning)
        return
    assert issubclass(kind, gpec.errors.GPECError)
    if name != "GPECError":
        python = (ValueError, TypeError, RuntimeError, ImportError, OSError, AttributeError)
        assert issubclass(kind, python), f"{name} is none of the kinds a caller would catch"
    assert str(kind("a sentence")) == "a sentence"


# Parameters


def test_every_class_with_parameters_has_an_example():
    assert set(EXAMPLES) == set(CONFIGURED.values()) - VARIABLE


EXAMPLE = on_each({cls.__name__: cls for cls in EXAMPLES})


class Untouchable:
    """Raises when it is looked at."""

    def refuse(self, *arguments):
        raise AssertionError("__init__ must only assign")

    __bool__ = __len__ = __iter__ = __eq__ = __float__ = __index__ = __call__ = refuse
    __hash__ = None


@EXAMPLE
def test_init_only_assigns(cls):
    """Whatever is passed is kept as the same object under the same name, and nothing else is set."""
    names = list(inspect.signature(cls).parameters)
    given = {name: Untouchable() for name in names}
    made = cls(**given)
    assert set(vars(made)) == set(names)
    for name in names:
        assert getattr(made, name) is given[name], name


@EXAMPLE
def test_no_variable_parameters(cls):
    kinds = {p.kind for p in inspect.signature(cls).parameters.values()}
    assert inspect.Parameter.VAR_POSITIONAL not in kinds
    assert inspect.Parameter.VAR_KEYWORD not in kinds


@EXAMPLE
def test_get_and_set_params(cls):
    made = EXAMPLES[cls]()
    parameters = made.get_params(deep=False)
    assert set(parameters) == set(inspect.signature(cls).parameters)
    for name, value in parameters.items():
        assert getattr(made, name) is value
    other = cls(**dict.fromkeys(parameters))
    assert other.set_params(**parameters) is other
    for name, value in parameters.items():
        assert getattr(other, name) is value
    assert set(parameters) <= set(made.get_params(deep=True))
    with pytest.raises(ValueError, match="Invalid parameter"):
        made.set_params(no_such_parameter=1)


@EXAMPLE
def test_clone(cls):
    made = EXAMPLES[cls]()
    before = dict(vars(made))
    twin = clone(made)
    assert type(twin) is cls
    assert twin is not made
    assert set(twin.get_params(deep=False)) == set(made.get_params(deep=False))
    for name, value in made.get_params(deep=False).items():
        assert repr(getattr(twin, name)) == repr(value), name
        if isinstance(value, (str, int, float)):
            assert getattr(twin, name) == value, name
    for name in twin.get_params(deep=False):
        twin.set_params(**{name: "changed"})
    assert vars(made) == before


@EXAMPLE
def test_copies_and_pickles(cls):
    made = EXAMPLES[cls]()
    for twin in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert type(twin) is cls
        assert repr(twin) == repr(made)


@EXAMPLE
def test_repr(cls):
    """It names the class and every parameter that is not at its default."""
    made = EXAMPLES[cls]()
    shown = repr(made)
    assert shown.startswith(f"{cls.__name__}(")
    for name, parameter in inspect.signature(cls).parameters.items():
        value = getattr(made, name)
        if value is not parameter.default and value != parameter.default:
            assert f"{name}=" in shown or repr(value) in shown, name


# Data


@on_each(DATA)
def test_data_is_frozen(cls):
    assert cls.__dataclass_params__.frozen
    empty = object.__new__(cls)
    name = dataclasses.fields(cls)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(empty, name, 1)


# scikit-learn's checks

# Those that GPEC cannot pass, with the words of the failure. One that passes must be taken off the list.
EXPECTED_FAILURES = {
    "check_complex_data": "Got X has complex numbers",  # refused, in gpec's words instead of scikit-learn's
    "check_dtype_object": "X column 'x0' is not numeric in row 0",  # an InputError; scikit-learn expects a TypeError
    "check_estimators_empty_data_messages": "Got X has 0 columns",
    "check_estimators_nan_inf": "doesn't check for NaN and inf in fit",  # where the model takes them they are allowed
    "check_fit2d_1sample": "needs at least 3 explained rows, got 1",
}


def checks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [check for _, check in estimator_checks.estimator_checks_generator(make_gpec(), mark=None)]


def name_of(check):
    return check.func.__name__ if isinstance(check, partial) else check.__name__


@pytest.mark.filterwarnings("ignore::gpec.errors.FewBoundaryPointsWarning")
@pytest.mark.parametrize("check", checks(), ids=name_of)
def test_gpec_passes_the_checks_of_scikit_learn(check):
    name = name_of(check)
    if name not in EXPECTED_FAILURES:
        check(make_gpec())
        return
    with pytest.raises((AssertionError, ValueError), match=EXPECTED_FAILURES[name]):
        check(make_gpec())


def test_expected_failures_are_checks():
    assert set(EXPECTED_FAILURES) <= {name_of(check) for check in checks()}


# Samplers and explainers have no fit, so only the checks of parameters apply to them. Kernels are scikit-learn kernels,
# not estimators: they have no tags, without which none of these checks starts.
CHECKS_OF_PARAMETERS = [
    "check_no_attributes_set_in_init",
    "check_get_params_invariance",
    "check_set_params",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_repr",
    "check_estimator_cloneable",
    "check_valid_tag_types",
    "check_mixin_order",
]
ESTIMATORS = [cls for cls in EXAMPLES if issubclass(cls, BaseEstimator)]


@on_each({f"{cls.__name__}, {name}": (cls, name) for cls in ESTIMATORS for name in CHECKS_OF_PARAMETERS})
def test_checks_of_parameters(case):
    cls, name = case
    getattr(estimator_checks, name)(cls.__name__, EXAMPLES[cls]())
