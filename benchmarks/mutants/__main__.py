"""``make mutants N=200 SEED=0``: put faults into a copy of the code, one at a time, and see whether a test fails.

Results are appended to results.jsonl; a run that was stopped goes on where it ended. ``AGAIN=1`` tries those that
survived once more, after tests were added. ``N=0`` tries nothing and writes docs/mutants.md anew.

cosmic-ray makes the faults. It would start Python and read all tests for each of them, seven seconds a time; here the
libraries are loaded once, each fault gets a fork, and only the tests that run the changed statement are run, the fast
ones first.
"""

from __future__ import annotations

import compileall
import hashlib
import importlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from benchmarks.mutants.faults import ROOMS, Mutant, draw, mutants
from benchmarks.mutants.report import write_page

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results.jsonl"
PAPER = "tests/estimator/test_paper_formula.py"
TESTS = {  # of the room, then of its neighbours
    "boundary": ("tests/boundary", "tests/estimator/test_given_boundary.py"),
    "geometry": ("tests/geometry", "tests/kernels", PAPER),
    "kernels": ("tests/kernels", "tests/gp", PAPER),
    "gp": ("tests/gp", PAPER),
}
SECONDS = 30.0  # of tests for one fault, as they take without it; the slowest are left out first
MEMORY = 8 << 30
LIBRARIES = "numpy scipy.stats scipy.optimize scipy.sparse.csgraph sklearn.ensemble sklearn.neighbors sklearn.pipeline "
LIBRARIES += (
    "sklearn.gaussian_process sklearn.compose pandas polars torch shap captum.attr xgboost lightgbm hypothesis "
)
LIBRARIES += "matplotlib.pyplot joblib mpmath tqdm typer rich coverage pytest"


def main() -> None:
    number, seed = os.environ.get("N", ""), int(os.environ.get("SEED", "") or 0)
    jobs, again = int(os.environ.get("JOBS", "") or 1), bool(os.environ.get("AGAIN"))
    every = mutants(ROOT)
    chosen = draw(every, int(number) if number else None, seed)
    done = {result["key"]: result for result in _results()}
    judged = json.loads((Path(__file__).parent / "judged.json").read_text("utf-8"))
    unsettled = {
        key
        for key, result in done.items()
        if result["outcome"] == "survived" and judged.get(key, {}).get("verdict") != "equivalent"
    }
    pending = [m for m in chosen if m.key not in done or (again and m.key in unsettled)]
    if pending:
        _load_libraries()
        with tempfile.TemporaryDirectory() as folder:
            slots = [_copy(Path(folder) / str(i)) for i in range(jobs)]
            known = _tests(slots)
            _try(pending, known, slots)
    write_page(ROOT, every, _results())


def _results() -> list[dict[str, Any]]:
    """The latest result of each fault."""
    if not RESULTS.exists():
        return []
    read = [json.loads(line) for line in RESULTS.read_text("utf-8").splitlines()]
    return list({result["key"]: result for result in read}.values())


def _load_libraries() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in LIBRARIES.split():
            importlib.import_module(name)


def _copy(slot: Path) -> Path:
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, slot / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", slot)
    compileall.compile_dir(slot / "src", quiet=1)
    return slot


def _pool(
    work: list[Any], start: Callable[[Any, Path], tuple[int, float]], end: Callable[..., None], slots: Any
) -> None:
    """Run ``work``, one piece a slot at a time: ``start`` gives process and time limit, ``end`` gets how it ended."""
    free, running = list(slots), {}
    work = work[::-1]
    while work or running:
        while work and free:
            slot, piece = free.pop(), work.pop()
            pid, seconds = start(piece, slot)
            running[pid] = (piece, slot, time.monotonic(), seconds)
        time.sleep(0.05)
        for pid, (piece, slot, began, seconds) in list(running.items()):
            took = time.monotonic() - began
            late = took > seconds
            if late:
                os.killpg(pid, signal.SIGKILL)
            ended, status = os.waitpid(pid, 0 if late else os.WNOHANG)
            if ended:
                del running[pid]
                free.append(slot)
                end(piece, slot, None if late else os.waitstatus_to_exitcode(status), took)


def _fork(slot: Path, tests: list[str], plugin: Any) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    log = os.open(slot / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 3
    try:
        os.chdir(slot)
        sys.dont_write_bytecode = True  # two faults of one second and size would share it
        sys.path[:] = [str(slot / "src"), *(path for path in sys.path if path not in ("", str(ROOT)))]
        os.environ["PYTHONPATH"] = str(slot / "src")
        import pytest

        options = [
            "-q",
            "--tb=short",
            "-Wignore::pytest.PytestAssertRewriteWarning",
            *(f"-pno:{name}" for name in ("cacheprovider", "xdist", "cov")),
        ]
        plugin.begin(slot)
        code = int(pytest.main([*options, *plugin.options, *tests], plugins=[plugin]))
        plugin.finish(slot)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)


class _Watch:
    """Notes of each test how long it takes and which lines of the rooms it runs."""

    options = ()

    def begin(self, slot: Path) -> None:
        import coverage

        sources = [str(slot / "src/gpec" / room) for room in ROOMS]
        self.coverage = coverage.Coverage(data_file=None, source=sources, config_file=False)
        self.coverage.start()
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self.failed.add(report.nodeid)

    def finish(self, slot: Path) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        lines: dict[str, dict[str, list[int]]] = {}
        for path in data.measured_files():
            module = str(Path(path).relative_to(slot))
            for line, tests in data.contexts_by_lineno(path).items():
                for test in tests:
                    lines.setdefault(test, {}).setdefault(module, []).append(line)
        good = {
            test: {"seconds": s, "lines": lines.get(test, {})}
            for test, s in self.seconds.items()
            if test not in self.failed
        }
        (slot / "watched.json").write_text(json.dumps({"tests": good, "failed": sorted(self.failed)}))


class _Choice:
    """Runs the tests chosen, in this order, up to the first that fails."""

    options = ("-x",)

    def __init__(self, order: list[str]) -> None:
        self.order = {test: i for i, test in enumerate(order)}

    def begin(self, slot: Path) -> None:
        (slot / "failed").write_text("")

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self.order), key=lambda i: self.order[i.nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            Path("failed").write_text(report.nodeid)

    def finish(self, slot: Path) -> None:
        pass


def _tests(slots: list[Path]) -> dict[str, dict[str, Any]]:
    """What each test file does without a fault; kept beside the environment as long as nothing changed."""
    kept = ROOT / ".venv" / "mutants.json"
    known: dict[str, dict[str, Any]] = json.loads(kept.read_text()) if kept.exists() else {}
    code = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        code.update(path.read_bytes())
    files = sorted({f for each in TESTS.values() for name in each for f in _files(name)})
    stamp = {f: hashlib.sha256(code.digest() + (ROOT / f).read_bytes()).hexdigest() for f in files}
    stale = [f for f in files if known.get(f, {}).get("stamp") != stamp[f]]

    def start(file: str, slot: Path) -> tuple[int, float]:
        (slot / "watched.json").unlink(missing_ok=True)
        return _fork(slot, [file], _Watch()), 1200.0

    def end(file: str, slot: Path, code: int | None, took: float) -> None:
        if not (slot / "watched.json").exists():
            raise SystemExit(f"{file} did not end by itself:\n{(slot / 'log').read_text()}")
        known[file] = {"stamp": stamp[file], **json.loads((slot / "watched.json").read_text())}
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(known))
        print(f"{file}: {len(known[file]['tests'])} tests, {took:.0f} s; not used: {known[file]['failed']}", flush=True)

    _pool(stale, start, end, slots)
    return {f: known[f]["tests"] for f in files}


def _files(name: str) -> list[str]:
    path = ROOT / name
    return [name] if path.is_file() else [str(f.relative_to(ROOT)) for f in sorted(path.rglob("test_*.py"))]


def _order(mutant: Mutant, known: dict[str, dict[str, Any]]) -> tuple[list[str], float]:
    """Tests that run the statement (or, of one that runs at import, any of its module), and their seconds."""
    order, spent = [], 0.0
    statement = set(range(mutant.first, mutant.last + 1))
    for name in TESTS[mutant.room]:
        reach = []
        for file in _files(name):
            for test, of in known.get(file, {}).items():  # a file may be new
                lines = of["lines"].get(mutant.module)
                if lines and (mutant.loaded or not statement.isdisjoint(lines)):
                    reach.append((of["seconds"], test))
        for seconds, test in sorted(reach):
            if spent + seconds > SECONDS:
                break
            spent += seconds
            order.append(test)
    return order, spent


def _try(pending: list[Mutant], known: dict[str, dict[str, Any]], slots: list[Path]) -> None:
    lines: dict[str, tuple[str, str]] = {}

    def record(mutant: Mutant, outcome: str, test: str, took: float) -> None:
        before, after = lines[mutant.key]
        result = {**mutant.as_dict(), "before": before, "after": after, "outcome": outcome, "test": test}
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**result, "seconds": round(took, 1)}) + "\n")
        print(f"{mutant.module}:{mutant.line} {outcome} {took:.0f} s {test}", flush=True)

    def start(mutant: Mutant, slot: Path) -> tuple[int, float]:
        changed, *lines[mutant.key] = mutant.source(ROOT)  # type: ignore[assignment]
        (slot / mutant.module).write_text(changed, "utf-8")
        Path(cache_from_source(slot / mutant.module)).unlink(missing_ok=True)
        order, spent = _order(mutant, known)
        return _fork(slot, sorted({test.split("::")[0] for test in order}), _Choice(order)), 40 + 2 * spent

    def end(mutant: Mutant, slot: Path, code: int | None, took: float) -> None:
        shutil.copy(ROOT / mutant.module, slot / mutant.module)
        failed = (slot / "failed").read_text() if (slot / "failed").exists() else ""
        # 0: all passed. 1: one failed. 2 and 4: the module cannot be imported. Below 0: a signal.
        outcome = "survived" if code == 0 else "late" if code is None else "killed"
        if code != 0 and not failed and not mutant.compiles(ROOT):
            outcome = "no code"
        record(mutant, outcome, failed or ("" if code == 0 else f"exit {code}"), took)

    for mutant in pending:
        if not _order(mutant, known)[0]:
            lines[mutant.key] = mutant.source(ROOT)[1:]
            record(mutant, "survived", "no test runs it", 0.0)
    _pool([mutant for mutant in pending if mutant.key not in lines], start, end, slots)


if __name__ == "__main__":
    main()
