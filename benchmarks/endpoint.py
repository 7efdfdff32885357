"""A fit of a model behind an endpoint that is slow and sometimes busy, against its latency alone."""

import multiprocessing
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path

import numpy as np

import gpec
from gpec.models import load_model

sys.path.append(str(Path(__file__).parent.parent / "tests"))

COLUMNS, LATENCY, BUSY = 8, 0.05, 20  # seconds of a call; one call in so many is told to come later
BATCH = 100


def serve(pipe, says):
    """A server in a process of its own; it says what it was asked when the pipe has a word."""
    from inference_server import Server, logistic, serving  # from the tests, whose path is set above

    def predict(tensors):
        time.sleep(LATENCY)
        return logistic({"rows": tensors["rows"][:, :3] + tensors["rows"][:, 3:6] * tensors["rows"][:, 5:]})

    numbers = count(1)

    def fail(_):
        if next(numbers) % BUSY:
            return None
        time.sleep(LATENCY)
        return 503, {"error": "later"}, [("Retry-After", says)] if says else []

    inputs = [{"name": "rows", "datatype": "FP64", "shape": [-1, COLUMNS]}]
    with serving(Server(predict, inputs, fail=fail)) as server:
        pipe.send(f"{server.address}/v2/models/m")
        pipe.recv()
        asked = Counter()
        for request in filter(None, server.requests):
            asked.update(map(tuple, np.reshape(request["inputs"][0]["data"], (-1, COLUMNS)).tolist()))
        pipe.send((len(server.requests), server.requests.count(None), len(asked), sum(asked.values())))


def fit(n_jobs, says=None, explained=40):
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, says), daemon=True)
    process.start()
    model = load_model(here.recv())
    X = np.random.default_rng(0).normal(size=(2_000, COLUMNS))
    g = gpec.GPEC(
        model,
        n_explained=explained,
        background=20,
        batch_size=BATCH,
        n_jobs=n_jobs,
        random_state=0,
        progress=False,
    )
    started = time.perf_counter()
    g.fit(X)
    seconds = time.perf_counter() - started
    here.send("how many?")
    calls, busy, distinct, rows = here.recv()
    process.join()
    return {
        "calls at a time": n_jobs,
        "Retry-After": says or "",
        "calls": calls,
        "busy": busy,
        "rows": distinct,
        "asked again": rows - distinct,
        "seconds": seconds,
        "ratio": seconds / (calls * LATENCY / n_jobs),
    }


def run():
    return [fit(1, explained=4), fit(4), fit(8), fit(8, "0"), fit(8, "1")]


def report(x):
    names = list(x[0])
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    for one in x:
        shown = [f"{one[name]:,.2f}" if isinstance(one[name], float) else f"{one[name]:,}" for name in names[2:]]
        lines.append(f"| {' | '.join([str(one[names[0]]), one[names[1]] or 'none', *shown])} |")
    return lines
