"""Take the pictures of docs/report.md: the report, and the page that `gpec app` shows.

    python docs/_pictures/screens.py

It needs chromium with its driver, and selenium.
"""

import base64
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from selenium import webdriver
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier

import gpec
from gpec.app import make_app
from gpec.app._server import serve

DOCS = Path(__file__).parents[1]
WIDTH = 1100


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """Chromium without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for option in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(option)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    try:
        yield driver
    finally:
        driver.quit()


def take(driver: webdriver.Chrome, address: str, picture: str, height: int, seconds: float) -> None:
    """The upper part of a page, after it has had some seconds to draw itself."""
    size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(address)
    time.sleep(seconds)
    driver.save_screenshot(str(DOCS / picture))


def take_row(driver: webdriver.Chrome, height: int = 1110) -> None:
    """The upper part of what the report says of the row with the smallest firm share."""
    size = {"width": 1500, "height": 4000, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.find_element("css selector", "#least tbody tr").click()
    time.sleep(3)
    place = driver.find_element("id", "row").rect
    clip = {"x": place["x"] - 12, "y": place["y"], "width": place["width"] + 24, "height": height, "scale": 1}
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    (DOCS / "report-row.png").write_bytes(base64.b64decode(taken["data"]))


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, y = X.iloc[:, :10].sample(frac=1, random_state=0), 1 - y
    model = GradientBoostingClassifier(random_state=0).fit(X[:300], y[X.index[:300]])
    g = gpec.GPEC(model, "tree", random_state=0, progress=False).fit(X[:300])
    with tempfile.TemporaryDirectory() as folder, browser() as driver:
        report = Path(folder) / "report.html"
        g.explain(X[450:]).to_html(report, gpec=g, title="Breast-cancer diagnoses")
        take(driver, report.as_uri(), "report.png", 1440, 3)
        take_row(driver)
        with serve(make_app().server, "127.0.0.1", 0) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            take(driver, f"http://127.0.0.1:{server.server_port}/", "page.png", 1000, 20)
            server.shutdown()


if __name__ == "__main__":
    main()
