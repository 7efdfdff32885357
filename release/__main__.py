"""Build a wheel and an sdist, install each in empty environments, and try them: ``python -m release``.

Every Python from 3.11 to 3.13 that is on the path gets the wheel; the sdist and each extra are tried on the first one.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
PYTHONS = ("3.11", "3.12", "3.13")
# What an extra brings, as one statement that fails without it.
EXTRAS = {
    "app": "import gpec.app; gpec.app.make_app()",
    "files": "import gpec, pandas as p; p.DataFrame({'a': [1]}).to_feather('a'); p.read_feather('a'); import skops",
    "dask": "import cloudpickle, dask.dataframe, distributed, gpec.distributed, pyarrow.parquet",
    "data": "import gpec, numpy as n; gpec.images.superpixels(n.eye(8)); import xgboost",
}


def run(*command: str | Path, cwd: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
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


def main() -> None:
    """Build, install, try; ends with an error at the first thing that does not work."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        run(sys.executable, "-m", "build", "--outdir", place, ROOT, cwd=place)
        (wheel,), (sdist,) = place.glob("*.whl"), place.glob("*.tar.gz")
        print(
            f"built {wheel.name} ({wheel.stat().st_size // 1000} kB), {sdist.name} ({sdist.stat().st_size // 1000} kB)"
        )
        pythons = found_pythons()
        for version, python in pythons.items():
            inside = environment(python, place / f"core-{version}", str(wheel))
            empty = place / f"empty-{version}"
            empty.mkdir()
            gpec = inside.parent / "gpec"
            told = run(gpec, "--version", cwd=empty).strip()
            run(gpec, "demo", cwd=empty)
            if not (empty / "gpec-demo.png").exists():
                raise SystemExit("the demo saved no picture")
            run(inside, HERE / "core_only.py", cwd=empty)
            print(f"Python {version}: {told}; the demo runs; what is missing names its pip command")
        python = next(iter(pythons.values()))
        inside = environment(python, place / "sdist", str(sdist))
        print("sdist: installs,", run(inside, "-c", "import gpec; print('gpec', gpec.__version__)", cwd=place).strip())
        for extra, statement in EXTRAS.items():
            inside = environment(python, place / f"extra-{extra}", f"{wheel}[{extra}]")
            run(inside, "-c", statement, cwd=place)
            print(f"extra {extra}: works with nothing else installed")
        missing = set(PYTHONS) - set(pythons)
        print(f"not tried, as they are not here: {', '.join(sorted(missing))}" if missing else "all Pythons tried")


if __name__ == "__main__":
    main()
