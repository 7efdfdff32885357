"""The report in a real browser, opened from disk without any network."""

import time

import numpy as np
import pytest
from report_helpers import NASTY, nasty

from browser_helpers import BROWSER, browser, console_errors, resize, wait_for
from explanation_helpers import CLASSES, explanation
from gpec.intervals.rules import SimilarRows

pytest.importorskip("jinja2", reason="the report needs jinja2")
pytest.importorskip("plotly", reason="the report needs plotly")
pytestmark = BROWSER


@pytest.fixture(scope="module")
def offline():
    with browser(offline=True) as driver:
        yield driver


def open_report(driver, path, e, **options):
    e.to_html(path, **options)
    driver.get(path.as_uri())
    wait_for(driver, lambda d: d.execute_script("return document.documentElement.dataset.ready"), 60)
    return driver


@pytest.fixture
def opened(offline, tmp_path):
    """``opened(e, **options)``: the browser with the report of an explanation."""
    yield lambda e, **options: open_report(offline, tmp_path / "report.html", e, **options)
    assert console_errors(offline) == []
    resize(offline, 1280, 900)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """A browser of its own with the report of 60 people, for the tests that only use it."""
    with browser(offline=True) as driver:
        yield open_report(driver, tmp_path_factory.mktemp("people") / "report.html", people())


@pytest.fixture
def page(loaded):
    """That report as it is when it is opened: nothing searched, the smallest firm share first and shown."""
    type_query(loaded, "")
    choose(loaded, "#feature", "the largest")
    while find(loaded, "#table thead th:nth-child(3)").get_attribute("aria-sort") != "ascending":
        find(loaded, "#table thead th:nth-child(3) button").click()
    find(loaded, "#table tbody tr:nth-child(1)").click()
    yield loaded
    assert console_errors(loaded) == []


def people(n=60, classes=None, **changes):
    """Rows with labels, a number and two texts each, and answers of the model."""
    rng = np.random.default_rng(1)
    data = np.empty((n, 3), dtype=object)
    data[:, 0] = np.arange(n) + 20.0
    data[:, 1] = [["red wine", "White wine", None][i % 3] for i in range(n)]
    data[:, 2] = [f"town {i % 7}" for i in range(n)]
    names = np.array([f"person {i}" for i in range(n)], dtype=object)
    answers = rng.random(n if classes is None else (n, classes))
    parts = {"data": data, "feature_names": ["age", "drink", "town"], "row_names": names, "predictions": answers}
    return explanation(n, 3, classes, **{**parts, **changes})


def text(driver, selector):
    return driver.execute_script("return document.querySelector(arguments[0]).textContent", selector)


def column(driver, table, j):
    script = "return [...document.querySelectorAll(arguments[0])].map(row => row.cells[arguments[1]].innerText)"
    return driver.execute_script(script, f"{table} tbody tr", j)


def find(driver, selector):
    from selenium.webdriver.common.by import By

    return driver.find_element(By.CSS_SELECTOR, selector)


def choose(driver, selector, name):
    from selenium.webdriver.support.ui import Select

    Select(find(driver, selector)).select_by_visible_text(name)


def type_query(driver, query):
    from selenium.webdriver.common.keys import Keys

    find(driver, "#query").send_keys(Keys.CONTROL, "a")
    find(driver, "#query").send_keys(Keys.DELETE, query)


def number(shown):
    return float(shown.replace("\N{MINUS SIGN}", "-").rstrip("%"))


def test_tables_and_charts_come_up(page):
    e, driver = people(), page
    order = np.argsort(e.firm_share, kind="stable")
    assert column(driver, "#least", 0) == [f"person {i}" for i in order[:6]]
    # of equal shares those that come last
    assert [e.firm_share[int(name.split()[1])] for name in column(driver, "#most", 0)] == pytest.approx(
        np.sort(e.firm_share)[::-1][:6]
    )
    assert column(driver, "#table", 0) == [f"person {i}" for i in order[:15]]
    for chart in ("overall", "waterfall"):
        assert driver.execute_script(f"return document.querySelectorAll('#{chart} .bars .point').length") >= 3
    assert text(driver, "#row-title") == f"Row person {order[0]}"


def test_click_shows_the_row(page):
    e, driver = people(), page
    find(driver, "#table tbody tr:nth-child(4)").click()
    i = int(text(driver, "#row-title").split()[-1])
    assert i == np.argsort(e.firm_share, kind="stable")[3]
    assert driver.execute_script("return document.querySelector('#table tr[aria-selected=true]').dataset.row") == str(i)
    order = np.argsort(-np.abs(e.values[i]), kind="stable")
    assert column(driver, "#row-table", 0) == [e.feature_names[f] for f in order]
    assert [number(shown) for shown in column(driver, "#row-table", 1)] == pytest.approx(e.values[i, order], abs=0.006)
    bounds = [[number(end) for end in shown.split(" to ")] for shown in column(driver, "#row-table", 3)]
    np.testing.assert_allclose(bounds, np.c_[e.lower[i, order], e.upper[i, order]], atol=0.006)
    share = e.model_variance[i, order] / e.variance[i, order]
    parts = [number(shown.split(" / ")[0]) for shown in column(driver, "#row-table", 5)]
    assert parts == pytest.approx(100 * share, abs=0.51)
    assert f"{e.predictions[i]:.3f}" in text(driver, "#row-words")


def test_waterfall_adds_up(page):
    """The bars are steps from the base value to the base value plus all attributions, intervals around their ends."""
    e, driver = people(), page
    i = int(text(driver, "#row-title").split()[-1])
    trace = "document.getElementById('waterfall').data[0]"
    base, step, error = (driver.execute_script(f"return {trace}.{name}") for name in ("base", "x", "error_x"))
    assert base[-1] == pytest.approx(e.base_values[i], rel=1e-4)
    assert base[:-1] == pytest.approx([base[j + 1] + step[j + 1] for j in range(2)])
    assert base[0] + step[0] == pytest.approx(e.base_values[i] + e.values[i].sum(), rel=1e-3)
    order = np.argsort(-np.abs(e.values[i]), kind="stable")
    assert error["array"] == pytest.approx(e.upper[i, order] - e.values[i, order], rel=2e-3)
    assert error["arrayminus"] == pytest.approx(e.values[i, order] - e.lower[i, order], rel=2e-3)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("person 17", lambda d: d["label"] == "person 17"),
        ("WHITE", lambda d: d["drink"] == "White wine"),
        ("wine, town 3", lambda d: d["drink"] is not None and d["town"] == "town 3"),
        ("missing", lambda d: d["drink"] is None),
        ("age > 70", lambda d: d["age"] > 70),
        ("Age<25", lambda d: d["age"] < 25),
        ("town = town 2", lambda d: d["town"] == "town 2"),
        ("drink=missing", lambda d: d["drink"] is None),
        ("no such thing", lambda d: False),
    ],
)
def test_search(page, query, expected):
    e, driver = people(), page
    type_query(driver, query)
    keys = ["label", "age", "drink", "town"]
    rows = [dict(zip(keys, [name, *row], strict=True)) for name, row in zip(e.row_names, e.data, strict=True)]
    wanted = [row["label"] for row in rows if expected(row)]
    shown = column(driver, "#table", 0)
    assert set(shown) <= set(wanted)
    assert len(shown) == min(len(wanted), 15)
    count = text(driver, "#count")
    assert count == (f"1 to {len(shown)} of {len(wanted)} found among 60" if wanted else "No row has this text.")


def test_sorting_and_pages(page):
    e, driver = people(), page
    find(driver, "#table thead th:nth-child(2) button").click()
    assert find(driver, "#table thead th:nth-child(2)").get_attribute("aria-sort") == "descending"
    order = np.argsort(-e.predictions, kind="stable")
    assert column(driver, "#table", 0) == [f"person {i}" for i in order[:15]]
    find(driver, "#table thead th:nth-child(2) button").click()
    assert find(driver, "#table thead th:nth-child(2)").get_attribute("aria-sort") == "ascending"
    find(driver, "#after").click()
    assert column(driver, "#table", 0) == [f"person {i}" for i in order[::-1][15:30]]
    assert text(driver, "#count") == "16 to 30 of 60"
    find(driver, "#before").click()
    assert not find(driver, "#before").is_enabled()


def test_a_chosen_feature_is_shown_and_sorted_by(page):
    e, driver = people(), page
    choose(driver, "#feature", "drink")
    find(driver, "#table thead th:nth-child(4) button").click()
    shown = column(driver, "#table", 3)
    assert shown == ["red wine"] * 15
    find(driver, "#table thead th:nth-child(5) button").click()
    top = np.argsort(-e.values[:, 1], kind="stable")[:15]
    assert column(driver, "#table", 0) == [f"person {i}" for i in top]


def test_classes_are_chosen(opened):
    e = people(classes=4)
    driver = opened(e)
    for k, name in enumerate(CLASSES):
        choose(driver, "#output", name)
        order = np.argsort(e.firm_share[:, k], kind="stable")
        assert column(driver, "#table", 0) == [f"person {i}" for i in order[:15]]
        row = int(text(driver, "#row-title").split()[-1])
        sizes = sorted(np.abs(e.values[row, :, k]), reverse=True)
        found = [abs(number(shown)) for shown in column(driver, "#row-table", 1)]
        assert found == pytest.approx(sizes, abs=0.006)
        assert f"“{name}”" in text(driver, "#row-words")


def test_one_class_needs_no_choice(page):
    assert not find(page, "#classes").is_displayed()


def test_keyboard_moves_through_the_rows(page):
    from selenium.webdriver.common.keys import Keys

    e, driver = people(), page
    order = np.argsort(e.firm_share, kind="stable")
    find(driver, "#table tbody tr:nth-child(1) button").send_keys(Keys.ARROW_DOWN)
    assert text(driver, "#row-title") == f"Row person {order[1]}"
    driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert text(driver, "#row-title") == f"Row person {order[2]}"
    driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert driver.switch_to.active_element.get_attribute("id") == "row-title"
    assert text(driver, "#row-title") == f"Row person {order[2]}"


def test_similar_rows_are_drawn(opened):
    rng = np.random.default_rng(0)
    n, K = 8, 5
    offset, deviation = rng.normal(size=(n, 3, K)), np.full((n, 3, K), 0.1)
    e = people(n, rule=SimilarRows(offset, deviation, None, "a row nearby"))
    driver = opened(e)
    i = int(text(driver, "#row-title").split()[-1])
    x = driver.execute_script("return document.getElementById('similar').data[1].x")
    order = np.argsort(-np.abs(e.values[i]), kind="stable")
    assert x == pytest.approx((e.values[i, :, None] + offset[i]).T[:, order].ravel(), rel=1e-3)
    assert "gpec=g" in text(driver, "#similar-words")


def test_similar_rows_of_a_fit_are_listed(opened, make_auto, X):
    g = make_auto().fit(X)
    driver = opened(g.explain(X[:4]), gpec=g)
    i = int(text(driver, "#row-title").split()[-1])
    answers = g.model(g.similar_rows(X[i : i + 1]))
    assert column(driver, "#similar-table", 1)[1:] == [f"{answer:.3f}" for answer in answers]
    assert f"from {answers.min():.3f} to {answers.max():.3f}" in text(driver, "#similar-words")


@pytest.mark.parametrize("classes", [None, 3])
def test_names_and_values_stay_text(opened, classes):
    driver = opened(nasty(classes=classes), title=NASTY[0])
    assert driver.execute_script("return [...document.querySelectorAll('script')].length") == 4  # with the charts
    assert driver.execute_script("return document.querySelectorAll('img').length") == 0
    assert driver.title == NASTY[0]
    assert text(driver, "h1") == NASTY[0]
    assert sorted(column(driver, "#row-table", 0)) == sorted(NASTY)
    ticks = driver.execute_script("return [...document.querySelectorAll('#overall .ytick')].map(t => t.textContent)")
    assert sorted(ticks) == sorted(cut(name, 30) for name in NASTY)
    assert driver.execute_script("return document.querySelectorAll('#overall .ytick a, #overall .ytick b').length") == 0
    find(driver, "#table tbody tr:nth-child(2)").click()
    assert text(driver, "#row-title").startswith("Row ")
    type_query(driver, "<script>")
    assert len(column(driver, "#table", 0)) > 0


def cut(name, length):
    tail = (length - 1) // 3
    return name if len(name) <= length else f"{name[: length - 1 - tail].rstrip()}…{name[-tail:].lstrip()}"


def test_fits_the_screen(opened):
    """Nothing sticks out, and charts keep inside their place."""
    names = ["a feature with quite a long name that does not end soon", "averyverylongwordwithoutanyspaces" * 3, "c"]
    driver = opened(people(feature_names=names))
    for width in (1280, 1100, 390):
        resize(driver, width, 900)
        inner = "return document.querySelector('#waterfall .main-svg').getBoundingClientRect().width"
        wait_for(driver, lambda d, inner=inner, width=width: 0.3 * width < d.execute_script(inner) <= width)
        time.sleep(0.5)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        table = "document.getElementById('row-table')"
        assert driver.execute_script(f"return {table}.scrollWidth - {table}.parentElement.clientWidth") <= 1
        for chart in ("overall", "waterfall"):
            texts = f"#{chart} .ytick text, #{chart} .xtick text, #{chart} .g-xtitle"
            script = "return [...document.querySelectorAll(arguments[0])].map(t => t.getBoundingClientRect())"
            boxes = driver.execute_script(script + ".map(b => [b.left, b.right]).flat()", texts)
            assert min(boxes) >= 0
            assert max(boxes) <= width


@pytest.mark.parametrize("e", [people(1, classes=4), people(2, base_values=None, predictions=None)])
def test_small_reports(opened, e):
    driver = opened(e)
    assert len(column(driver, "#row-table", 0)) == 3


def test_all_zero(opened):
    zero = np.zeros((4, 3))
    driver = opened(people(4, values=zero, model_variance=zero, noise_variance=zero))
    assert column(driver, "#row-table", 5) == ["no uncertainty"] * 3


def test_many_features_are_cut_and_can_be_shown(opened):
    rng = np.random.default_rng(0)
    names, shape = [f"f{i}" for i in range(40)], (5, 40)
    arrays = {name: rng.random(shape) for name in ("values", "model_variance", "noise_variance", "data")}
    driver = opened(explanation(5, 3, explainer_variance=None, feature_names=names, **arrays))
    assert len(column(driver, "#row-table", 0)) == 15
    find(driver, "#row-all").click()
    assert len(column(driver, "#row-table", 0)) == 40
