"""The report of 10,000 rows: how large it is, how fast it is written, opens and answers in a browser."""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier

import gpec

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from browser_helpers import browser, console_errors, wait_for

QUERIES = ("7", "12.3", "person 99", "person 9999", "feature_3 > 0.5", "feature_0 = missing", "nothing like this")
# What the reader waits for: from the key to the table drawn anew, as the page itself and as the driver sees it.
SEARCH = """
const box = document.getElementById("query");
const started = performance.now();
box.value = arguments[0];
box.dispatchEvent(new Event("input"));
document.getElementById("table").getBoundingClientRect();
return [performance.now() - started, document.getElementById("count").textContent];
"""


def explained(n, d, seed=0):
    """A fit and the explanation of ``n`` rows of ``d`` features, with the intervals of similar rows."""
    X, y = make_classification(n + 1_000, d, n_informative=d // 2, n_redundant=d // 4, random_state=seed)
    frame = pd.DataFrame(X, columns=[f"feature_{i}" for i in range(d)])
    rows, train = frame[:n], frame[n:]
    rows = rows.set_axis([f"person {i}" for i in range(n)])
    model = GradientBoostingClassifier(n_estimators=40, random_state=seed).fit(train, y[n:])
    g = gpec.GPEC(model, "tree", n_boundary=200, n_explained=100, background=20, random_state=seed, progress=False)
    g.fit(train[:700]).calibrate(train[700:])
    return g, g.explain(rows)


def opened(path):
    """Milliseconds from the start of loading until tables and until charts are there, and the searches'."""
    with browser(offline=True) as driver:
        driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        driver.get(path.as_uri())
        wait_for(driver, lambda d: d.execute_script("return document.documentElement.dataset.ready"), 120)
        marks = driver.execute_script("return performance.getEntriesByType('mark').map(m => [m.name, m.startTime])")
        metrics = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        (busy,) = [each["value"] for each in metrics if each["name"] == "TaskDuration"]
        found = {**dict(marks), "processor": 1e3 * busy}
        inside, outside = [], []
        for query in QUERIES:
            started = time.perf_counter()
            inside.append(driver.execute_script(SEARCH, query)[0])
            outside.append(1e3 * (time.perf_counter() - started))
        return {**found, "search": max(inside), "search_driven": max(outside), "errors": len(console_errors(driver))}


def run(n=10_000, d=20, repeats=3):
    g, e = explained(n, d)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        started = time.perf_counter()
        e.to_html(path, gpec=g)
        seconds = time.perf_counter() - started
        size = path.stat().st_size
        runs = [opened(path) for _ in range(repeats)]
    worst = {name: float(np.median([each[name] for each in runs])) for name in runs[0]}
    return {"n": n, "d": d, "megabytes": size / 1e6, "write_seconds": seconds, "repeats": repeats, **worst}


def report(x):
    return [
        f"{x['n']:,} rows x {x['d']} features, similar rows included: **{x['megabytes']:.1f} MB** (target below 10), "
        f"written in {x['write_seconds']:.0f} s. In headless Chromium, median of {x['repeats']} fresh starts: tables "
        f"usable after **{x['usable'] / 1e3:.1f} s**, charts drawn after **{x['ready'] / 1e3:.1f} s** (target 3; "
        f"{x['processor'] / 1e3:.1f} s of it processor time of the page); the "
        f"slowest of {len(QUERIES)} searches takes **{x['search'] / 1e3:.3f} s** in the page and "
        f"{x['search_driven'] / 1e3:.3f} s through the driver (target 0.2)."
    ]
