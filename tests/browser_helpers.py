"""A real browser for the tests of pages: Debian's Chromium, driven through Selenium."""

import importlib.util
import shutil
from contextlib import contextmanager

import pytest

REASON = "no chromium and chromedriver on the path"
_SERIOUS = ("SEVERE", "WARNING")


def find_browser():
    """Paths of Chromium and its driver, or None."""
    found = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
    return found if all(found) and importlib.util.find_spec("selenium") else None


# For a module of browser tests: ``pytestmark = browser_helpers.BROWSER``.
BROWSER = [pytest.mark.browser, pytest.mark.skipif(find_browser() is None, reason=REASON)]


@contextmanager
def browser(width=1280, height=900, *, offline=False, dark=False):
    """A headless Chromium that keeps its console messages; ``offline`` cuts every network, loopback included."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    chromium, chromedriver = find_browser()
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--force-device-scale-factor=1",
        "--hide-scrollbars",
        f"--window-size={width},{height}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    try:
        resize(driver, width, height)
        if offline:
            driver.execute_cdp_cmd("Network.enable", {})
            nothing = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
            driver.execute_cdp_cmd("Network.emulateNetworkConditions", nothing)
        if dark:
            scheme = [{"name": "prefers-color-scheme", "value": "dark"}]
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        yield driver
    finally:
        driver.quit()


def resize(driver, width, height):
    """Give the page this size, phones' widths included, which a window cannot have."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def console_errors(driver):
    """Errors and warnings in the console since the last call."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in _SERIOUS]


def wait_for(driver, condition, seconds=20):
    """What ``condition(driver)`` returns once it is true; exceptions count as not yet."""
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, seconds, 0.05, ignored_exceptions=(WebDriverException,)).until(condition)
