"""Numbers and missing values as people read them."""

import numpy as np
import pandas as pd
import pytest

from browser_helpers import BROWSER, wait_for
from explanation_helpers import explanation
from gpec._numbers import (
    answer_text,
    counted,
    decimals_for,
    is_missing,
    level_text,
    number,
    rough_text,
    share_text,
    shorten,
    value_text,
)

MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("value", "five", "three"),
    [
        (3.14159265, "3.1416", "3.14"),
        (3.0, "3", "3"),
        (-0.0, "0", "0"),
        (-2.5, "-2.5", "-2.5"),  # as in a table
        (1234.56, "1234.6", "1235"),
        (99999.7, "100000", "100000"),
        (999.7, "999.7", "1000"),
        (1234567.0, "1234567", "1234567"),
        (1e300, "1e+300", "1e+300"),
        (0.000123456, "0.00012346", "0.000123"),
        (np.float32(0.1), "0.1", "0.1"),
        (7, "7", "7"),
        (123456789, "123456789", "123456789"),
        (True, "True", "True"),
        ("red", "red", "red"),
        (np.inf, "inf", "inf"),
        ("x" * 100, "x" * 40 + "…" + "x" * 19, "x" * 40 + "…" + "x" * 19),
        (np.datetime64("2021-03-01"), "2021-03-01", "2021-03-01"),
        (np.datetime64("2021-03-01T12:30", "ns"), "2021-03-01 12:30:00", "2021-03-01 12:30:00"),
        (pd.Timestamp("2021-03-01"), "2021-03-01", "2021-03-01"),
        (None, "missing", "missing"),
        (np.nan, "missing", "missing"),
        (pd.NA, "missing", "missing"),
        (pd.NaT, "missing", "missing"),
        (np.datetime64("NaT", "ns"), "missing", "missing"),
    ],
)
def test_values_of_rows(value, five, three):
    assert value_text(value) == five
    assert value_text(value, digits=3) == three


def test_missing_of_all_kinds():
    values = np.array([1.0, np.nan, None, pd.NA, pd.NaT, "a", ""], dtype=object)
    assert is_missing(values).tolist() == [False, True, True, True, True, False, False]


def test_results_have_the_decimals_that_the_largest_needs():
    assert [number(x, 0.25, sign=True) for x in (0.25, -0.01234, 1e-9, -1e-9)] == [
        "+0.250", f"{MINUS}0.012", "0.000", "0.000",
    ]  # fmt: skip
    assert [number(x, [3.0, -1234.0]) for x in (1234.0, -0.6)] == ["1234", f"{MINUS}1"]
    assert [number(x) for x in (0.123456, -2.0, 1234.5, 0.0)] == ["0.123", f"{MINUS}2.00", "1234", "0.00"]
    assert number(-1.23456e-9) == f"{MINUS}1.23e{MINUS}09"
    assert number(1.5, 1e9) == "1.50e+00"


@pytest.mark.parametrize(
    ("numbers", "decimals"), [([0.5, -99.9], 1), ([], 2), (0.0, 2), (1e6, 0), (1e7, None), (1e-6, 8), (1e-7, None)]
)
def test_decimals(numbers, decimals):
    assert decimals_for(np.array(numbers)) == decimals


def test_levels_shares_answers_and_counts():
    assert [level_text(level) for level in (0.95, 0.999, 0.5)] == ["95%", "99.9%", "50%"]
    assert [share_text(share) for share in (0.0, 0.001, 0.5, 0.996, 1.0)] == ["0%", "<1%", "50%", ">99%", "100%"]
    assert [answer_text(answer, True) for answer in (0.51234, -2.0)] == ["0.512", f"{MINUS}2.00"]
    assert answer_text(0.51234, False) == "0.512"
    assert answer_text(1234.5, False) == "1234"
    assert [counted(n, "row") for n in (0, 1, 1200)] == ["0 rows", "1 row", "1,200 rows"]


def test_long_texts_keep_both_ends():
    assert shorten("abcdefghij", 10) == "abcdefghij"
    assert shorten("abcdefghijk", 10) == "abcdef…ijk"
    assert shorten("two\nlines", 20) == "two lines"


@BROWSER[0]
@BROWSER[1]
def test_the_script_of_reports_writes_numbers_as_python_does(driver, tmp_path):
    """All numbers of a page have the decimals of the largest; ties may be rounded either way, so there are none."""
    pytest.importorskip("jinja2", reason="the report needs jinja2")
    pytest.importorskip("plotly", reason="the report needs plotly")
    explanation().to_html(tmp_path / "report.html")
    driver.get((tmp_path / "report.html").as_uri())
    wait_for(driver, lambda d: d.execute_script("return document.documentElement.dataset.ready"), 60)
    for like in (0.25, 3.0, 1234.0, 1e-9, 1e12):
        for value in (0.0, -0.0, 0.123456, -0.012344, -3.0, 1234.6, -1e-9, 7.77e11):
            asked = [value, decimals_for(like)]
            assert driver.execute_script("return plainNumber(...arguments)", *asked) == number(value, like)
            assert driver.execute_script("return signedNumber(...arguments)", *asked) == number(value, like, sign=True)
    for share in (0.0, 0.001, 0.234, 0.996, 1.0):
        assert driver.execute_script("return percent(arguments[0])", share) == share_text(share)
    assert driver.execute_script("return shortened('abcdefghijk', 10)") == shorten("abcdefghijk", 10)


@pytest.mark.parametrize(
    ("size", "text"),
    [(2_104.0, "2,100"), (0.3149, "0.31"), (3.0, "3"), (2.5, "2.5"), (123.0, "120"), (1e-7, "1e-07"), (69.0, "69")],
)
def test_rough_sizes_have_two_digits(size, text):
    assert rough_text(size) == text
