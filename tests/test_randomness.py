"""One stream of random numbers for each purpose, and one purpose for each place that draws."""

import ast
from collections import defaultdict

import numpy as np
import pytest

from gpec.errors import InputError, ParameterTypeError
from gpec.runtime import randomness as _randomness
from gpec.runtime.randomness import derived_seed, make_seed, stream
from package_sources import trees

# One of several draws them: a sampler of the boundary, or an explainer from a seed of one row and one explainer.
SHARED = {"boundary rows": "gpec.boundary", "perturbations": "gpec.explainers"}


def places():
    """Purpose -> modules that draw for it; what is no literal text stands as code."""
    found = defaultdict(set)
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
                name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                if name in ("stream", "derived_seed"):
                    (purpose,) = [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "purpose")]
                    text = purpose.value if isinstance(purpose, ast.Constant) else ast.unparse(purpose)
                    found[text].add(module)
    return found


PURPOSES = sorted(places())


def test_purposes_are_words():
    """A purpose that is computed could be that of another module."""
    assert len(PURPOSES) > 20
    assert [purpose for purpose in PURPOSES if not purpose.replace(" ", "").isalpha()] == []


def test_purpose_belongs_to_one_module():
    found = {purpose: sorted(modules) for purpose, modules in places().items()}
    for purpose, room in SHARED.items():
        assert [module for module in found.pop(purpose) if not module.startswith(room)] == []
    assert {purpose: modules for purpose, modules in found.items() if len(modules) != 1} == {}


def test_streams_of_different_purposes_differ():
    for seed in (0, 7, 2**62):
        draws = {purpose: tuple(stream(seed, purpose).integers(2**62, size=4).tolist()) for purpose in PURPOSES}
        draws["the seed itself"] = tuple(np.random.default_rng(seed).integers(2**62, size=4).tolist())
        assert len(set(draws.values())) == len(draws)
        seeds = {derived_seed(seed, purpose) for purpose in PURPOSES}
        assert len(seeds) == len(PURPOSES)


def test_streams_of_different_seeds_and_keys_differ():
    keys = [(), (0,), (1,), (0, 1), (1, 0)]
    draws = {(seed, key): float(stream(seed, "background", *key).random()) for seed in (0, 1) for key in keys}
    assert len(set(draws.values())) == len(draws)
    assert len({derived_seed(seed, "background", *key) for seed in (0, 1) for key in keys}) == len(draws)


def test_streams_can_be_had_again():
    np.testing.assert_array_equal(stream(3, "background", 5).random(9), stream(3, "background", 5).random(9))
    assert derived_seed(3, "explainer", 5) == derived_seed(3, "explainer", 5)


def test_streams_stay_as_they_are():
    """A seed gives the same numbers in every release; where that ends, the changelog has to say so."""
    assert derived_seed(0, "background") == 1374269461
    assert derived_seed(2**62, "explainer", 1, 2) == 2105886038


@pytest.mark.parametrize("classes", [2, 3])
def test_stages_of_a_fit_share_no_draws(make, models, X, monkeypatch, classes):
    """Boundary, graph and the rest: no two purposes start from the same state."""
    real, states = _randomness._sequence, defaultdict(set)

    def record(seed, purpose, key):
        sequence = real(seed, purpose, key)
        states[purpose].add(tuple(sequence.generate_state(4).tolist()))
        return sequence

    monkeypatch.setattr(_randomness, "_sequence", record)
    parts = {} if classes == 2 else {"model": models.three_classes, "explainer": models.slopes_of_three}
    make(n_landmarks=10, **parts).fit(X)
    drawn = {"background", "boundary rows", "boundary pairs", "boundary search", "explained rows"}
    assert drawn | {"graph landmarks", "evidence rows"} <= set(states)
    everything = [state for some in states.values() for state in some]
    assert len(set(everything)) == len(everything)


def test_seeds():
    assert make_seed(5) == make_seed(np.int32(5)) == 5
    assert make_seed(None) != make_seed(None)
    generator, state = np.random.default_rng(0), np.random.RandomState(0)
    for random_state in (generator, state):
        assert make_seed(random_state) != make_seed(random_state)
    assert make_seed(np.random.default_rng(1)) == make_seed(np.random.default_rng(1))
    with pytest.raises(InputError, match="random_state=-1"):
        make_seed(-1)
    for wrong in (1.5, "seed", [1], True):
        with pytest.raises(ParameterTypeError, match="random_state="):
            make_seed(wrong)
