"""Build a wheel and an sdist, install each in empty environments, and try them: ``python -m release``.

On the first Python that is found: the sdist, each extra by itself, and the lowest versions that pyproject.toml allows.
On every Python from 3.11 to 3.13: the wheel alone, and the tests of the sdist with only the core and the test tools.
torch is left out throughout: one version of it is tested, that of constraints.txt, by ``make test``.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ("3.11", "3.12", "3.13")
TEST_TOOLS = ("hypothesis", "mpmath", "pytest", "pytest-xdist")  # of the extra dev
# What an extra brings, as one statement that fails without it.
EXTRAS = {
    "app": "import gpec.app; gpec.app.make_app()",
    "files": "import gpec, pandas as p; p.DataFrame({'a': [1]}).to_feather('a'); p.read_feather('a'); import skops",
    "dask": "import cloudpickle, dask.dataframe, distributed, gpec.distributed, pyarrow.parquet",
    "data": "import gpec, numpy as n; gpec.images.superpixels(n.eye(8)); import xgboost",
}


def run(*command: str | Path, cwd: Path) -> str:
    clean = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "GPEC_DATA")
    }
    clean["OMP_NUM_THREADS"] = "1"
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=clean, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def found_pythons() -> dict[str, str]:
    """Version -> program, of those that start."""
    found = {}
    for version in PYTHONS:
        for program in (f"python{version}", *sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/python"))):
            which = shutil.which(str(program))
            if which and subprocess.run([which, "-c", "import venv"], capture_output=True).returncode == 0:
                found[version] = which
                break
    return found


def environment(python: str, folder: Path, *what: str) -> Path:
    """The Python of a new environment with these packages."""
    run(python, "-m", "venv", folder, cwd=ROOT)
    inside = folder / "bin" / "python"
    run(inside, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", *what, cwd=folder)
    return inside


def requirements(*extras: str) -> list[str]:
    """Of the core and these extras, as pyproject.toml states them."""
    return PROJECT["dependencies"] + [each for extra in extras for each in PROJECT["optional-dependencies"][extra]]


def lowest(*extras: str) -> list[str]:
    """The lowest versions allowed, as requirements."""
    stated = requirements(*extras)
    if loose := [each for each in stated if ">=" not in each]:
        raise SystemExit(f"pyproject.toml states no lowest version of {', '.join(loose)}")
    return [each.replace(">=", "==") for each in stated]


def try_core(wheel: Path, sources: Path, version: str, python: str, place: Path) -> None:
    """The wheel alone: the command, the demo, what it says of missing extras. Then the tests that need no extra."""
    inside = environment(python, place / f"core-{version}", str(wheel))
    empty = place / f"empty-{version}"
    empty.mkdir()
    gpec = inside.parent / "gpec"
    told = run(gpec, "--version", cwd=empty).strip()
    run(gpec, "demo", cwd=empty)
    if not (empty / "gpec-demo.png").exists():
        raise SystemExit("the demo saved no picture")
    run(inside, HERE / "core_only.py", cwd=empty)
    print(f"Python {version}: {told}; the demo runs; what is missing names its pip command", flush=True)
    tools = [each for each in requirements("dev") if each.partition(">=")[0] in TEST_TOOLS]
    run(inside, "-m", "pip", "install", "--quiet", *tools, cwd=empty)
    tests = ("-m", "pytest", "-q", "-n", "auto", "-p", "no:cacheprovider", "--ignore=tests/paper", "tests")
    print(f"Python {version}, tests of the core:", run(inside, *tests, cwd=sources).splitlines()[-1], flush=True)


def main() -> None:
    """Build, install, try; ends with an error at the first thing that does not work."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        run(sys.executable, "-m", "build", "--outdir", place, ROOT, cwd=place)
        (wheel,), (sdist,) = place.glob("*.whl"), place.glob("*.tar.gz")
        built = ", ".join(f"{each.name} ({each.stat().st_size // 1000} kB)" for each in (wheel, sdist))
        print(f"built {built}", flush=True)
        pythons = found_pythons()
        version, python = next(iter(pythons.items()))
        inside = environment(python, place / "sdist", str(sdist))
        told = run(inside, "-c", "import gpec; print('gpec', gpec.__version__)", cwd=place).strip()
        print(f"sdist: installs, {told}", flush=True)
        for extra, statement in EXTRAS.items():
            inside = environment(python, place / f"extra-{extra}", f"{wheel}[{extra}]")
            run(inside, "-c", statement, cwd=place)
            print(f"extra {extra}: works with nothing else installed", flush=True)
        inside = environment(python, place / "lowest", str(wheel), *lowest(*EXTRAS), "pytest")
        smoke = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "filterwarnings=default", HERE / "smoke.py")
        said = run(inside, *smoke, cwd=place).splitlines()[-1]  # old packages warn of new ones
        print(f"lowest versions, Python {version}: {said}", flush=True)
        with tarfile.open(sdist) as archive:
            archive.extractall(place / "sources", filter="data")
        (sources,) = (place / "sources").iterdir()
        for version, python in pythons.items():
            try_core(wheel, sources, version, python, place)
        missing = set(PYTHONS) - set(pythons)
        print(f"not tried, as they are not here: {', '.join(sorted(missing))}" if missing else "all Pythons tried")


if __name__ == "__main__":
    main()
