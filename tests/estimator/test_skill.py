"""A posterior that is no better than the mean says so."""

import warnings

import numpy as np
import pytest

import gpec
from gpec.errors import PosteriorWarning


def test_it_warns_where_nothing_can_be_predicted(make_auto, X):
    def unrelated(rows):
        return np.sin(1e6 * np.asarray(rows))

    g = make_auto(explainer=unrelated).fit(X)
    assert g.diagnostics_["left_out_R2"] < 0.05
    with pytest.warns(PosteriorWarning, match="hardly better than the mean"):
        g.explain(X[:3], attribution="posterior")


def test_it_is_silent_where_values_are_predicted(make_auto, X, tmp_path):
    g = make_auto(n_explained=80).fit(X)
    e, values = g.posterior_.leave_one_out(), g.attributions_.values
    w = g.explained_weights_[:, None]
    expected = 1 - (w * e.residual**2).sum() / (w * (values - np.average(values, axis=0, weights=w[:, 0])) ** 2).sum()
    assert g.diagnostics_["left_out_R2"] == pytest.approx(expected)
    assert g.diagnostics_["left_out_R2"] > 0.5
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=g.model, explainer=g.explainer)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PosteriorWarning)
        g.explain(X[:3], attribution="posterior")
        loaded.explain(X[:3], attribution="posterior")
