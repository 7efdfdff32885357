"""The commands on docs/command-line.md run as they stand, and it names what there is."""

import re
import shlex

import pandas as pd
import pytest
from cli_helpers import QUICK, call

from gpec.cli import app
from package_sources import ROOT

PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")


def commands():
    return [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


def test_the_page_runs_as_it_stands(tmp_path, monkeypatch):
    for package in ("xgboost", "pyarrow", "plotly", "jinja2"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(block, "command-line.md", "exec"), {})  # noqa: S102  the page is ours
    lines = commands()
    assert len(lines) == 5
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "gpec"
        quick = [] if "--fitted" in words or words[1].endswith(".gpec") else QUICK
        result = call(*words, *quick)
        assert result.exit_code == 0, result.output
        assert "Wrote" in result.stdout
    assert pd.read_parquet("patients.parquet")["row"].nunique() == 69
    assert {path.name for path in tmp_path.iterdir()} >= {"patients-report.html", "explained.html", "explained.gpec"}


def test_every_option_on_the_page_exists():
    shown = "".join(call(command, "--help").output for command in ("explain", "report", "fit", "app"))
    known = set(re.findall(r"--[a-z][a-z-]+", shown + call("--help").output))
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) <= known


def test_every_command_is_on_the_page():
    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert "explain" in names
    for name in names:
        assert f"`gpec {name}" in PAGE
