"""An explanation shown by a notebook, and printed."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from report_helpers import NASTY, nasty

from explanation_helpers import explanation


class Cells(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.rows, self.tags, self.text = [], [], ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        self.in_cell = tag in ("td", "th") or (tag == "div" and getattr(self, "in_cell", False))

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.in_cell = False

    def handle_data(self, data):
        self.text += data
        if self.in_cell:
            self.rows[-1][-1] += data


def number(text):
    return float(text.replace("\N{MINUS SIGN}", "-"))


def test_one_row_shows_the_largest_first_with_their_bounds():
    e = explanation(4, 3)[1]
    head, *lines = Cells(e._repr_html_()).rows
    assert head == ["feature", "value", "attribution", "95% interval", "", "sign"]
    order = sorted(range(3), key=lambda f: -abs(e.values[f]))
    assert [line[0] for line in lines] == [e.feature_names[f] for f in order]
    for f, line in zip(order, lines, strict=True):
        assert number(line[1]) == pytest.approx(e.data[f], rel=1e-4)
        assert number(line[2]) == pytest.approx(e.values[f], abs=0.006)
        assert [number(bound) for bound in line[3].split(" to ")] == pytest.approx([e.lower[f], e.upper[f]], abs=0.006)


def test_bars_stand_where_the_numbers_are():
    """Zero, value and both bounds on one scale that spans all intervals and zero."""
    e = explanation(4, 3)[1]
    low, high = min(e.lower.min(), 0), max(e.upper.max(), 0)
    place = lambda x: 100 * (x - low) / (high - low)  # noqa: E731
    found = re.findall(r"left:([\d.]+)%(?:;width:([\d.]+)%)?", e._repr_html_())
    for i, f in enumerate(sorted(range(3), key=lambda f: -abs(e.values[f]))):
        bar, interval, zero = found[3 * i : 3 * i + 3]
        ends = sorted([place(0.0), place(e.values[f])])
        assert [float(bar[0]), float(bar[0]) + float(bar[1])] == pytest.approx(ends, abs=0.11)
        bounds = [place(e.lower[f]), place(e.upper[f])]
        assert [float(interval[0]), float(interval[0]) + float(interval[1])] == pytest.approx(bounds, abs=0.11)
        assert float(zero[0]) == pytest.approx(place(0.0), abs=0.06)


def test_several_rows_name_the_rows_and_count_the_rest():
    e = explanation(9, 3, row_names=np.array([f"patient {i}" for i in range(9)], dtype=object))
    cells = Cells(e._repr_html_())
    assert [line[0] for line in cells.rows[1:]] == [
        f"patient {i}" if first else "" for i in range(4) for first in (True, False, False)
    ]
    assert "and 5 more rows" in cells.text
    assert e.statement() in cells.text


def test_several_classes_are_named():
    e = explanation(2, 3, classes=4)
    head, *lines = Cells(e._repr_html_()).rows
    assert head[:3] == ["row", "feature", "class"]
    flat = np.abs(e.values[0]).ravel()
    f, k = np.unravel_index(np.argmax(flat), (3, 4))
    assert lines[0][:3] == ["0", e.feature_names[f], e.output_names[k]]


@pytest.mark.parametrize("n", [1, 3, 5_000])
@pytest.mark.parametrize("classes", [None, 4])
def test_size_is_bounded(n, classes):
    d = 300
    e = explanation(n, d, classes, feature_names=[f"a rather long name of a feature, number {i}" for i in range(d)])
    for part in (e, e[0]):
        html = part._repr_html_()
        assert len(html) < 25_000
        assert html.count("<tr") <= 13
        assert len(repr(part).splitlines()) <= 16


@pytest.mark.parametrize("key", [0, (0, 0), (slice(None), 0), (0, slice(None), 1), (0, 0, 1), [], (slice(None), [])])
def test_every_part_can_be_shown(key):
    e = explanation(5, 3, classes=4)
    assert Cells(e[key]._repr_html_()).text.startswith("Explanation")
    assert repr(e[key]).startswith("Explanation(")


@pytest.mark.parametrize("classes", [None, 4])
def test_names_and_values_stay_text(classes):
    cells = Cells(nasty(classes=classes)._repr_html_())
    assert set(cells.tags) <= {"div", "table", "thead", "tbody", "tr", "th", "td"}
    assert any(name in line for name in NASTY for line in cells.rows)
    assert "missing" in cells.text


def test_print_shows_attributions_of_several_rows():
    e = explanation(9, 3)
    lines = repr(e).splitlines()
    assert lines[0] == f"Explanation(9 rows, 3 features; mean std {e.std.mean():.3g})"
    assert lines[1].split() == ["row", "feature", "data", "value", "lower", "upper"]
    frame = e.to_frame()
    for line in lines[2:14]:
        row, feature, _, *numbers = line.split()
        expected = frame[(frame["row"] == int(row)) & (frame["feature"] == feature)].iloc[0]
        assert [float(x) for x in numbers] == pytest.approx([*expected[["value", "lower", "upper"]]], abs=0.006)
    assert [line.split()[0] for line in lines[2:14]] == [str(i) for i in range(4) for _ in range(3)]
    assert lines[14:] == ["... and 5 more rows; e[i] shows one, e.to_html(path) all of them"]


def test_what_is_missing_is_called_so():
    data = np.array([[None, np.nan, pd.NaT], [pd.NA, "x", pd.Timestamp("2021-03-01")]], dtype=object)
    names = np.array([pd.NaT, None], dtype=object)
    e = explanation(2, 3, data=data, row_names=names, feature_names=["a", "b", "c"])
    cells = Cells(e._repr_html_()).rows[1:]
    assert [line[0] for line in cells] == ["missing", *[""] * 5]
    assert sorted(line[2] for line in cells) == ["2021-03-01", *["missing"] * 4, "x"]
    assert not re.search("None|NaT|NaN|nan|NA", repr(e) + e._repr_html_())
    assert repr(e).split().count("missing") == 6 + 4


def test_print_of_several_classes_names_the_class():
    e = explanation(2, 3, classes=4)
    assert repr(e).splitlines()[1].split()[:3] == ["row", "feature", "output"]
    assert repr(e).splitlines()[-1] == "... and 9 smaller ones of each row"


def test_works_with_the_core_alone(one_process_environment):
    code = (
        "import sys; sys.modules.update(jinja2=None, plotly=None); sys.path.insert(0, 'tests');"
        "from explanation_helpers import explanation; e = explanation(); assert '<table' in e._repr_html_(); print(e)"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], env=one_process_environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
