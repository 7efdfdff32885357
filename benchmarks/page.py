"""The playground in a browser: from a slider's move to the new picture."""

import sys
import threading
import time
from pathlib import Path

import numpy as np

from gpec.app import _surface, make_app
from gpec.app._controls import SLIDERS
from gpec.app._server import serve

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from browser_helpers import browser, wait_for

MOVES = 20
MEANINGS = {"paper": "the paper's variance", "similar": "similar rows"}
# Both ends are seen by the browser: the key that moves the slider, and plotly's word that it has drawn.
WATCH = """
window.moved = window.drawn = null;
document.addEventListener("keydown", () => { window.moved = performance.now(); window.drawn = null; }, true);
document.querySelector("#surface .js-plotly-plot").on("plotly_afterplot", () => {
  if (window.drawn === null) window.drawn = performance.now();
});
"""


def forget(slider):
    """Let go of what an earlier move to the same place has left, and of nothing that a first move would find."""
    stages = [_surface.surface_of, _surface.fit_of, _surface.reading_at]
    if slider in ("n_boundary", "regularisation"):
        stages.append(_surface._boundary)
    if slider == "regularisation":
        stages += [_surface._model, _surface._usual_square, _surface._probability]
    for stage in stages:
        stage.cache_clear()


def work(driver):
    """Seconds of processor time so far, of the page's main thread and of the server (and the driver's client)."""
    metrics = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(m["value"] for m in metrics if m["name"] == "TaskDuration") + time.process_time()


def seconds(driver, dial):
    """For so many moves to and fro over the slider's range: seconds from key to picture, and of processor time."""
    from selenium.webdriver.common.keys import Keys

    handle = driver.find_element("css selector", f"#{dial.name} [role=slider]")
    found, forward = [], True
    for _ in range(MOVES):
        forget(dial.name)
        at = float(handle.get_attribute("aria-valuenow"))
        if not dial.least + 1e-9 < at < dial.most - 1e-9:  # turn round at both ends
            forward = at < dial.most - 1e-9
        before = work(driver)
        handle.send_keys(Keys.ARROW_RIGHT if forward else Keys.ARROW_LEFT)
        drawn = wait_for(driver, lambda d: d.execute_script("return window.drawn && window.drawn - window.moved"), 60)
        found.append((drawn / 1e3, work(driver) - before))
        time.sleep(0.05)
    return found


def run():
    from selenium.webdriver.common.action_chains import ActionChains

    results = {}
    with serve(make_app().server, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with browser() as driver:
            for meaning, label in MEANINGS.items():
                driver.get(f"http://127.0.0.1:{server.server_port}/")
                area = wait_for(driver, lambda d: d.find_element("css selector", "#surface .nsewdrag"))
                wait_for(driver, lambda d: d.find_element("id", "median-width").text)
                options = driver.find_elements("css selector", "#meaning label")
                next(option for option in options if option.text.strip() == label).click()
                time.sleep(2)
                ActionChains(driver).move_to_element_with_offset(area, 40, 40).click().perform()
                wait_for(driver, lambda d: d.find_element("id", "point-value").text)
                driver.execute_script(WATCH)
                driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
                for dial in SLIDERS:
                    if (dial.name, meaning) != ("step", "paper"):
                        results[f"{meaning} {dial.name}"] = seconds(driver, dial)
        server.shutdown()
    return results


def report(x):
    lines = [
        "| slider | meaning of the interval | median, s | slowest of 20, s | processor time, median, s |",
        "|---|---|---|---|---|",
    ]
    for name, found in x.items():
        meaning, slider = name.split()
        wall, work = np.transpose(found)
        numbers = f"{np.median(wall):.2f} | {wall.max():.2f} | {np.median(work):.2f}"
        lines.append(f"| {slider} | {MEANINGS[meaning]} | {numbers} |")
    everything, _ = np.transpose(np.concatenate(list(x.values())))
    return [
        *lines,
        "",
        f"Median over all {len(everything)} moves: **{np.median(everything):.2f} s** (target 1), measured by the "
        "browser from the key that moves the slider to the end of drawing; a point is clicked, so that its readings "
        "and its similarity ball are part of it. Processor time is that of the page's main thread and of the server "
        "together.",
    ]
