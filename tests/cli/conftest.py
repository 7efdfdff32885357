"""The folder in which commands run."""

import sys

import pytest
from cli_helpers import RULES, table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder of a user, with ``credit_model.py``, ``train.csv`` (which has the label) and ``new.csv``."""
    (tmp_path / "credit_model.py").write_text(RULES)
    table(120, 0).assign(granted=1).to_csv(tmp_path / "train.csv", index=False)
    table(12, 1).to_csv(tmp_path / "new.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path
