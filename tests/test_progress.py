"""Progress bars show when asked for, after a second, and are closed whatever happens."""

import io
import sys
from typing import ClassVar

import pytest

from gpec.runtime import progress as module
from gpec.runtime.progress import Progress


class Recorder:
    """Stands for tqdm: notes how it is made and used."""

    made: ClassVar[list] = []

    def __init__(self, **options):
        self.options, self.done, self.closed = options, 0, False
        self.made.append(self)

    def update(self, amount):
        self.done += amount

    def close(self):
        self.closed = True


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.setattr(Recorder, "made", [])
    monkeypatch.setattr(module, "tqdm", Recorder)
    return Recorder


@pytest.mark.parametrize(("progress", "disable"), [("auto", None), (True, False), (False, True)])
def test_who_sees_the_bar(recorder, progress, disable):
    with Progress(7, "boundary", progress) as bar:
        bar.advance()
        bar.advance(3)
    (tqdm,) = recorder.made
    assert tqdm.options["disable"] is disable  # None: tqdm asks whether stderr is a terminal
    assert tqdm.options["total"] == 7
    assert tqdm.options["desc"] == "boundary"
    assert tqdm.options["delay"] == 1.0
    assert tqdm.done == 4
    assert tqdm.closed


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_bar_is_closed_when_the_work_fails(recorder, error):
    with pytest.raises(error, match="stopped"), Progress(7, "boundary", True):
        raise error("stopped")
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
    real = module.tqdm

    def without_delay(**options):
        return real(**{**options, "delay": 0, "mininterval": 0, "file": shown})

    monkeypatch.setattr(module, "tqdm", without_delay)
    with Progress(2, "geodesics", progress) as bar:
        bar.advance()
        bar.advance()
    assert ("geodesics" in shown.getvalue()) is visible


def test_short_work_shows_nothing(capsys):
    with Progress(2, "boundary", True) as bar:
        bar.advance(2)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("progress", [True, False, "auto"])
def test_progress_never_changes_the_answer(make, X, progress):
    expected = make(progress=False).fit(X).explain(X[:4])
    found = make(progress=progress).fit(X).explain(X[:4])
    assert (found.variance == expected.variance).all()


def test_fit_and_explain_report_their_stages(recorder, monkeypatch, make, X):
    g = make(progress=True).fit(X)
    assert {tqdm.options["desc"] for tqdm in recorder.made} == {"explaining", "boundary", "geodesics"}
    recorder.made.clear()
    g.explain(X[:4])
    assert {tqdm.options["desc"] for tqdm in recorder.made} == {"explaining", "posterior"}
    for tqdm in recorder.made:
        assert tqdm.closed
        assert tqdm.done == tqdm.options["total"]


@pytest.mark.parametrize("before", [True, False])
def test_progress_may_be_set_after_fit(recorder, make, X, before):
    g = make(progress=before).fit(X)
    recorder.made.clear()
    g.set_params(progress=not before).explain(X[:4])
    assert {tqdm.options["desc"] for tqdm in recorder.made} == {"explaining", "posterior"}
    assert {tqdm.options["disable"] for tqdm in recorder.made} == {before}
