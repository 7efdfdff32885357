"""The page in a real browser: sliders moved, the map clicked, files opened, numbers seen to change."""

import re
import time

import numpy as np
import pytest
from page_helpers import Callbacks, served

import browser_helpers
from browser_helpers import console_errors, resize, wait_for
from explanation_helpers import explanation
from gpec.app import make_app

pytestmark = browser_helpers.BROWSER
SCRIPT = "<script>document.title='owned'</script>"
START = {
    "dataset": "sine", "model": "network", "meaning": "paper", "feature": 0, "added": [], "hold": [], "lam": 0.0,
    "rho": 1.0, "n_boundary": 200, "regularisation": 1.0, "noise": 0.02, "step": 0.5,
}  # fmt: skip
WIDTHS = "return document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def page():
    with served() as address:
        yield address


@pytest.fixture
def playground(driver, page):
    driver.get(page)
    wait_for(driver, lambda d: text(d, "median-width"))
    wait_for(driver, lambda d: d.find_elements("css selector", "#surface .nsewdrag"))
    return driver


def text(driver, name):
    return driver.find_element("id", name).text


def press(driver, slider, key, times=1):
    from selenium.webdriver.common.keys import Keys

    handle = driver.find_element("css selector", f"#{slider} [role=slider], [role=slider]#{slider}")
    for _ in range(times):
        handle.send_keys(getattr(Keys, key))


def click_map(driver, right, down):
    """Click so many pixels from the middle of the map."""
    from selenium.webdriver.common.action_chains import ActionChains

    driver.execute_script("window.scrollTo(0, 0)")
    area = driver.find_element("css selector", "#surface .nsewdrag")
    ActionChains(driver).move_to_element_with_offset(area, right, down).click().perform()


def choose(driver, group, label):
    options = driver.find_elements("css selector", f"#{group} label")
    next(option for option in options if option.text.strip() == label).click()


def changed(driver, name, before):
    return wait_for(driver, lambda d: (now := text(d, name)) != before and now)


def test_it_starts_with_what_the_controls_say(playground):
    _, answer = Callbacks(make_app()).call("..surface.figure", START)
    (median,) = re.findall(r'"children": ?"([\d.]+)", ?"id": ?"median-width"', answer)
    assert text(playground, "median-width") == median
    assert text(playground, "n-points") == "200"
    assert console_errors(playground) == []


@pytest.mark.parametrize("slider", ["lam", "rho", "n_boundary", "regularisation", "noise"])
def test_a_slider_changes_the_numbers(playground, slider):
    before, shown = text(playground, "median-width"), text(playground, f"{slider}-shown")
    press(playground, slider, "ARROW_RIGHT", 4)
    after = changed(playground, "median-width", before)
    assert float(after) > 0
    assert float(text(playground, f"{slider}-shown")) > float(shown)
    assert console_errors(playground) == []


def test_similar_rows_and_their_step(playground):
    before = text(playground, "median-width")
    choose(playground, "meaning", "similar rows")
    wait_for(playground, lambda d: "inside the first row's interval" in text(d, "statement"))
    before = changed(playground, "median-width", before)
    press(playground, "step", "ARROW_RIGHT", 3)
    wait_for(playground, lambda d: "80% of the way" in text(d, "statement"))
    assert float(changed(playground, "median-width", before)) > 0
    assert console_errors(playground) == []


def test_a_click_shows_a_point(playground):
    assert not playground.find_elements("id", "point-value")
    click_map(playground, 60, -40)
    where = wait_for(playground, lambda d: text(d, "point-where"))
    interval, distance = text(playground, "point-interval"), text(playground, "point-distance")
    click_map(playground, -90, 70)
    changed(playground, "point-where", where)
    assert text(playground, "point-interval") != interval
    assert text(playground, "point-distance") != distance
    choose(playground, "feature", "x2")
    wait_for(playground, lambda d: "Attribution of x2" in text(d, "numbers"))
    assert console_errors(playground) == []


def test_an_explained_row_is_added_and_taken_back(playground):
    start = text(playground, "median-width")
    assert text(playground, "n-explained") == "24"
    choose(playground, "mode", "add an explained row")
    click_map(playground, 60, -40)
    wait_for(playground, lambda d: text(d, "n-explained") == "25")
    assert float(text(playground, "median-width")) <= float(start)
    assert "1 of them yours" in text(playground, "numbers")
    click_map(playground, 60, -40)  # the same place again adds nothing
    click_map(playground, -80, 80)
    wait_for(playground, lambda d: text(d, "n-explained") == "26")
    playground.find_element("id", "undo").click()
    wait_for(playground, lambda d: text(d, "n-explained") == "25")
    playground.find_element("id", "clear").click()
    wait_for(playground, lambda d: text(d, "n-explained") == "24")
    assert text(playground, "median-width") == start
    assert console_errors(playground) == []


def test_another_place_starts_anew(playground):
    click_map(playground, 60, -40)
    wait_for(playground, lambda d: text(d, "point-where"))
    pick_from(playground, "dataset", "Iris flowers")
    wait_for(playground, lambda d: "petal length (cm)" in text(d, "feature"))
    wait_for(playground, lambda d: "Click the map" in text(d, "numbers"))
    assert console_errors(playground) == []


def pick_from(driver, name, label):
    """Choose an option of a drop-down list."""
    driver.find_element("id", name).click()
    wait_for(
        driver,
        lambda d: [
            o for o in d.find_elements("css selector", "[role=option], .dash-dropdown-option") if label in o.text
        ],
    )[0].click()


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_page(playground, width):
    resize(playground, width, 900)
    try:
        time.sleep(0.3)
        assert playground.execute_script(WIDTHS) <= width
    finally:
        resize(playground, 1280, 900)


@pytest.fixture
def saved(tmp_path):
    """Thirty rows, from firm to unclear, with a column whose name is a script."""
    n = 30
    deviation = np.linspace(0.01, 3.0, n)[:, None] * np.ones(3)
    path = tmp_path / "thirty.gpec"
    explanation(
        n=n, values=np.ones((n, 3)) * [0.3, -0.2, 0.1], model_variance=deviation**2, noise_variance=np.zeros((n, 3)),
        feature_names=[SCRIPT, "b", "c"], row_names=np.array([f"person-{i}" for i in range(n)]),
    ).save(path)  # fmt: skip
    return path


def open_file(driver, page, path):
    driver.get(page)
    wait_for(driver, lambda d: d.find_elements("css selector", "#page label"))
    choose(driver, "page", "Your data")
    driver.find_element("css selector", "#upload input[type=file]").send_keys(str(path))


def names(driver):
    return [cell.text for cell in driver.find_elements("css selector", "table.rows td.name")]


def test_a_file_is_read_searched_sorted_and_compared(driver, page, saved):
    open_file(driver, page, saved)
    wait_for(driver, lambda d: len(names(d)) == 20)
    assert names(driver)[-1] != "person-0"  # the smallest firm share comes first
    assert "promises no coverage" in text(driver, "file-about")
    pick_from(driver, "order", "largest firm share first")
    wait_for(driver, lambda d: names(d)[0] == "person-0")
    driver.find_element("id", "later").click()
    wait_for(driver, lambda d: len(names(d)) == 10)
    driver.find_element("id", "search").send_keys("person-1")
    wait_for(driver, lambda d: len(names(d)) == 11)  # 1, 10 to 19
    driver.find_elements("css selector", ".pick")[0].click()
    wait_for(driver, lambda d: "row person-1" in text(d, "comparison"))
    driver.find_elements("css selector", ".pick")[-1].click()
    wait_for(driver, lambda d: len(d.find_elements("css selector", ".compared thead th")) == 3)
    wait_for(driver, lambda d: len(d.find_elements("css selector", "#bars .trace.bars")) == 2)
    assert SCRIPT in text(driver, "comparison")
    ticks = [tick.text for tick in driver.find_elements("css selector", "#bars .ytick text")]
    assert any(tick.startswith("<script>") for tick in ticks)
    assert driver.title == "gpec"
    resize(driver, 390, 900)
    time.sleep(0.3)
    assert driver.execute_script(WIDTHS) <= 390
    resize(driver, 1280, 900)
    assert console_errors(driver) == []


def test_a_file_named_on_the_command_line_is_listed(driver, saved):
    with served([saved]) as address:
        driver.get(address)
        wait_for(driver, lambda d: d.find_elements("css selector", "#page label"))
        choose(driver, "page", "Your data")
        wait_for(driver, lambda d: len(names(d)) == 20)
        assert not driver.find_element("id", "output").is_displayed()
        assert console_errors(driver) == []


def test_a_fit_is_shown_without_its_model(driver, page, make, X, tmp_path):
    path = tmp_path / "fit.gpec"
    make().fit(X).save(path)
    open_file(driver, page, path)
    wait_for(driver, lambda d: len(names(d)) == 20)
    assert "gpec explain DATA --fitted fit.gpec --model MODEL" in text(driver, "file-about")
    assert not driver.find_element("id", "order").is_displayed()
    assert {cell.text for cell in driver.find_elements("css selector", "table.rows td.firm")} == {""}
    driver.find_elements("css selector", ".pick")[0].click()
    wait_for(driver, lambda d: "noise ± 0" in text(d, "comparison"))
    assert console_errors(driver) == []


def test_what_cannot_be_drawn_is_said_in_a_sentence(playground):
    pick_from(playground, "dataset", "Iris flowers")
    pick_from(playground, "model", "Random forest")
    press(playground, "regularisation", "END")
    wait_for(playground, lambda d: "lower the regularisation" in text(d, "note"))
    press(playground, "regularisation", "HOME")
    wait_for(playground, lambda d: text(d, "note") == "")
    assert console_errors(playground) == []


def test_a_file_of_another_kind_is_refused_in_a_sentence(driver, page, tmp_path):
    path = tmp_path / "<b>notes.txt"
    path.write_text("nothing of the kind")
    open_file(driver, page, path)
    wait_for(driver, lambda d: text(d, "file-note"))
    assert text(driver, "file-note") == "<b>notes.txt is not a file of gpec."
    assert console_errors(driver) == []


def test_a_large_file_is_refused_in_a_sentence(driver, page, tmp_path):
    path = tmp_path / "large.gpec"
    with open(path, "wb") as file:
        file.truncate(51 * 2**20)
    open_file(driver, page, path)
    wait_for(driver, lambda d: "larger than 50 MB" in text(d, "file-note"))
    assert names(driver) == []
