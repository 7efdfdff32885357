import inspect
import re

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes

import gpec.plots
from drawn import NASTY, draw_all, made, mixed, notes, tick_texts
from gpec.errors import InputError
from gpec.metrics import rejection_curve


@pytest.fixture(autouse=True)
def _close():
    yield
    mpl.pyplot.close("all")


@pytest.mark.parametrize(
    ("e", "kind"),
    [
        (made()[0], "waterfall"),
        (made(1), "waterfall"),
        (made(base_values=None)[0], "bars"),
        (made(5, 3, 2)[0, :, 1], "waterfall"),
        (made(), "beeswarm"),
        (made()[:, 0], "scatter"),
        (made(9, 1), "scatter"),
        (made(5, 3, 2)[:, 0, 1], "scatter"),
        (made(5, 3, 2)[:, :, 1], "beeswarm"),
        (made(5, 3, 2), "summary"),
    ],
)
def test_the_picture_that_suits(monkeypatch, e, kind):
    asked = []
    for name in gpec.plots.__all__:
        function = getattr(gpec.plots, name)
        monkeypatch.setattr(
            gpec.plots, name, lambda *a, name=name, function=function, **k: asked.append(name) or function(*a, **k)
        )
    assert isinstance(draw_all(e.plot()), Axes)
    assert asked == [kind]


def test_another_kind_with_options():
    _, ax = mpl.pyplot.subplots()
    assert made(1).plot("bars", ax=ax, max_features=2, legend=False) is ax
    assert len(ax.containers) == 2
    assert made().plot("scatter", feature="x1").get_xlabel() == "x1"
    assert made()[0].plot("similar", others=made()[1:6]) is not ax


def test_a_wrong_kind_lists_the_kinds():
    with pytest.raises(InputError, match=r"kind='pie' is not one of 'bars', 'beeswarm', .*'waterfall'\."):
        made().plot("pie")


@pytest.mark.parametrize(
    ("e", "message"),
    [
        (made(5, 3, 2)[0], r"has 2 classes; select one, for instance e\[0, :, 'kind 0'\]\.plot"),
        (made(5, 3, 2)[:, 0], r"has 2 classes; select one, for instance e\[:, 'x0', 'kind 0'\]\.plot"),
        (made()[0, 0], r"single attribution cannot be plotted; select a row, for instance e\[0\]\.plot"),
        (made(5, 3, 2)[0, 0], r"single attribution cannot be plotted"),
        (made()[:0], "the explanation has no rows"),
        (made(5, 3, 2)[:0], "the explanation has no rows"),
    ],
)
def test_what_cannot_be_drawn_gets_a_sentence(e, message):
    with pytest.raises(InputError, match=message):
        e.plot()


def test_one_signature_for_all():
    for name in gpec.plots.__all__:
        parameters = inspect.signature(getattr(gpec.plots, name)).parameters
        assert parameters["ax"].kind is inspect.Parameter.KEYWORD_ONLY, name
        assert parameters["ax"].default is None, name


@pytest.mark.parametrize("kind", ["bars", "waterfall", "summary", "beeswarm", "scatter", "similar"])
def test_no_figure_is_made_where_axes_are_given_and_none_is_shown(monkeypatch, kind):
    monkeypatch.setattr(mpl.pyplot, "show", lambda *_: pytest.fail("show was called"))
    monkeypatch.setattr(mpl.figure.Figure, "show", lambda *_: pytest.fail("show was called"))
    e = mixed()
    first = {"bars": e[0], "waterfall": e[0], "similar": e[0]}.get(kind, e)
    options = {"scatter": {"feature": 1}, "similar": {"others": e[1:5]}}.get(kind, {})
    figure = mpl.figure.Figure()
    ax = figure.subplots()
    assert first.plot(kind, ax=ax, **options) is ax
    assert mpl.pyplot.get_fignums() == []
    subfigure = mpl.figure.Figure().subfigures(1, 2)[0]
    assert first.plot(kind, ax=subfigure.subplots(), **options).get_figure() is subfigure
    first.plot(kind, **options)
    assert mpl.pyplot.get_fignums() == [1]


# Labels


@pytest.mark.parametrize("name", [*NASTY, "$", r"\$", "$$", "a$b", r"\alpha", "_^{}", "%d"])
def test_any_name_is_drawn_as_it_is(name):
    curve = rejection_curve([1.0, 2.0, 3.0], [0.0, 1.0, 2.0])
    title = gpec.plots.rejection(curve, title=name).title
    drawn, is_formula = title._preprocess_math(title.get_text())
    whole = " ".join(name.split())
    first, _, last = drawn.partition("…")
    assert drawn == whole if len(whole) <= 60 else (whole.startswith(first) and whole.endswith(last) and last)
    assert not is_formula


def test_long_names_keep_both_ends():
    (name,) = tick_texts(gpec.plots.beeswarm(made(9, 1, feature_names=["x" * 500])))
    assert len(name) == 36
    names = ["start" + "-" * 60 + "end", "a" * 70, "price"]
    data = np.array([[3.14159, "b" * 70, "c" * 70]], dtype=object)
    row = made(1, 3, feature_names=names, data=data, values=np.array([[3.0, 2.0, 1.0]]))[0]
    number, both, text = tick_texts(gpec.plots.bars(row))
    assert re.fullmatch(r"start-+…-+end = 3\.14", number)
    assert re.fullmatch("a+…a+ = b+…b+", both)
    assert re.fullmatch("price = c+…c+", text)
    assert max(map(len, (number, both, text))) <= 40


def test_the_promise_in_a_few_words():
    ax = gpec.plots.bars(made(confidence_level=0.9)[0])
    assert "90% intervals of the latent explanation (no coverage promised)" in " ".join(notes(ax))
    assert ax.get_xlabel() == "attribution to sick (probability)"
    assert gpec.plots.summary(made(5, 3, 2)).get_xlabel() == "mean size of attribution (probability)"
    assert gpec.plots.bars(made(output_names="0", diagnostics={})[0]).get_xlabel() == "attribution to class 0"


def test_many_curves_differ_with_and_without_colours():
    e = made(40, 32)
    ax = gpec.plots.calibration(e, e.values, by_feature=True, max_features=32)
    looks = [line for line in ax.lines if line.get_label() in set(e.feature_names)]
    assert len({(line.get_linestyle(), line.get_marker()) for line in looks}) == 32
    assert len({(line.get_linestyle(), line.get_color()) for line in looks[:28]}) == 28


@pytest.mark.parametrize("keep_similar", [True, False])
@pytest.mark.parametrize("several", [False, True])
def test_every_plot_draws_explained_similar_rows(make_exact, models, X, several, keep_similar):
    g = make_exact(*((models.three_classes, models.slopes_of_three) if several else ())).fit(X)
    e = g.explain(X[:12], keep_similar=keep_similar)
    of_class = e[:, :, 1] if several else e
    assert e.plot(kind="summary").get_figure()
    for kind in ("beeswarm", "scatter"):
        assert of_class.plot(kind=kind, **({"feature": "x1"} if kind == "scatter" else {})).get_figure()
    for kind in ("waterfall", "bars"):
        assert of_class[0].plot(kind=kind, max_features=1).get_figure()
    others = g.explain(g.similar_rows(X[:1]))
    assert "0 of 30 attributions" in notes(gpec.plots.similar(of_class[0], others))[-1]
