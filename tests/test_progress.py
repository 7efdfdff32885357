"""Progress bars show when asked for, after a second, and are closed whatever happens."""

import io
import sys
from typing import ClassVar

import numpy as np
import pytest
from tqdm.auto import tqdm

from gpec.geometry import GeodesicGraph


class Recorder:
    """Stands for tqdm: notes how it is made and used."""

    made: ClassVar[list] = []

    def __init__(self, **options):
        self.options, self.done, self.closed = options, 0, False
        self.made.append(self)

    def update(self, amount=1):
        self.done += amount

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.setattr(Recorder, "made", [])
    monkeypatch.setattr("gpec.runtime.progress.tqdm", Recorder)
    return Recorder


def measure(n, progress):
    """Distances along a line of points, which are work with a bar."""
    return GeodesicGraph.build(np.arange(float(n))[:, None], progress=progress).distances


@pytest.mark.parametrize(("progress", "disable"), [("auto", None), (True, False), (False, True)])
def test_who_sees_the_bar(recorder, progress, disable):
    measure(7, progress)
    (bar,) = recorder.made
    assert bar.options["disable"] is disable  # None: tqdm asks whether stderr is a terminal
    assert bar.options["total"] == 7
    assert bar.options["desc"] == "geodesics"
    assert bar.options["delay"] == 1.0
    assert bar.done == 7
    assert bar.closed


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_bar_is_closed_when_the_work_fails(recorder, monkeypatch, error):
    def stop(*_, **__):
        raise error("stopped")

    monkeypatch.setattr("gpec.geometry.graph.dijkstra", stop)
    with pytest.raises(error, match="stopped"):
        measure(7, True)
    assert recorder.made[0].closed


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("progress", "stream", "visible"),
    [
        ("auto", io.StringIO, False),
        ("auto", Terminal, True),
        (True, io.StringIO, True),
        (False, Terminal, False),
    ],
)
def test_real_bar(monkeypatch, progress, stream, visible):
    shown = stream()
    monkeypatch.setattr(sys, "stderr", shown)

    def without_delay(**options):
        return tqdm(**{**options, "delay": 0, "mininterval": 0, "file": shown})

    monkeypatch.setattr("gpec.runtime.progress.tqdm", without_delay)
    measure(2, progress)
    assert ("geodesics" in shown.getvalue()) is visible


def test_short_work_shows_nothing(capsys):
    measure(2, True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("progress", [True, False, "auto"])
def test_progress_never_changes_the_answer(make, X, progress):
    expected = make(progress=False).fit(X).explain(X[:4])
    found = make(progress=progress).fit(X).explain(X[:4])
    assert (found.variance == expected.variance).all()


def test_fit_and_explain_report_their_stages(recorder, monkeypatch, make, X):
    g = make(progress=True).fit(X)
    assert {bar.options["desc"] for bar in recorder.made} == {"explaining", "boundary", "geodesics"}
    recorder.made.clear()
    g.explain(X[:4])
    assert {bar.options["desc"] for bar in recorder.made} == {"explaining", "posterior"}
    for bar in recorder.made:
        assert bar.closed
        assert bar.done == bar.options["total"]


@pytest.mark.parametrize("before", [True, False])
def test_progress_may_be_set_after_fit(recorder, make, X, before):
    g = make(progress=before).fit(X)
    recorder.made.clear()
    g.set_params(progress=not before).explain(X[:4])
    assert {bar.options["desc"] for bar in recorder.made} == {"explaining", "posterior"}
    assert {bar.options["disable"] for bar in recorder.made} == {before}
