import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import gpec
from gpec.cli import app


def test_version_option():
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.strip() == gpec.__version__


def test_help_names_the_commands():
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    for command in ("demo", "fit", "explain", "report", "app"):
        assert f" {command} " in result.output


def test_app_is_run_as_asked(tmp_path, monkeypatch):
    pytest.importorskip("dash")
    seen = []
    monkeypatch.setattr("gpec.app.run", lambda files, **options: seen.append((files, options)))
    (tmp_path / "e.gpec").touch()
    result = CliRunner().invoke(app, ["app", str(tmp_path / "e.gpec"), "--port", "8123", "--no-browser"])
    assert result.exit_code == 0, result.output
    assert seen == [
        ([tmp_path / "e.gpec"], {"host": "127.0.0.1", "host_names": [], "port": 8123, "open_browser": False})
    ]
    assert CliRunner().invoke(app, ["app", str(tmp_path / "nowhere.gpec")]).exit_code == 2


def test_demo_refuses_a_missing_folder_before_it_works(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--picture", str(tmp_path / "nowhere" / "a.png")])
    assert result.exit_code == 2
    assert "nowhere" in "".join(result.output.replace("│", "").split())  # the message is wrapped in a box


def test_demo_prints_the_patients_it_draws(tmp_path):
    picture = tmp_path / "demo.png"
    result = CliRunner().invoke(app, ["demo", "--picture", str(picture)])
    assert result.exit_code == 0, result.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    for words in (
        "All of them were explained, so this is exact for each row",
        "95% interval",
        "features with a firm sign make up at least 97.5%",
        "could change sign",
    ):
        assert words in result.output
    answers = re.findall(r"P\(malignant\) is ([\d.]+) to ([\d.]+) among similar patients(.)", result.output)
    assert [end for *_, end in answers] == [".", ".", ":", ":"]  # two whose explanations hold, two others
    for low, high, end in answers:
        assert (float(low) < 0.5 < float(high)) == (end == ":")
    assert result.output.count("Patient ") == 4


@pytest.mark.parametrize("heavy", ["torch", "shap", "xgboost", "numba", "dash"])
def test_importing_gpec_loads_nothing_heavy(heavy):
    code = f"import sys, gpec; print({heavy!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "False"
