"""The scripts that read tables, at a toy size, on the real files."""

from importlib import import_module

import pytest
from paper.__main__ import run_part
from paper._diabetes import PEOPLE, people_data

pytestmark = pytest.mark.data


def test_the_real_people_are_as_many_as_the_report_says():
    for words in PEOPLE:
        number = int(words.split()[0].replace(",", "")) if words[0].isdigit() else 3_183
        assert len(people_data(words)[0]) == number


@pytest.mark.parametrize("name", ["ablation", "boundary_points", "diabetes", "regularisation", "sensitivity", "times"])
def test_scripts_run_on_the_real_files(name, tmp_path):
    run = run_part(name, "toy", folder=tmp_path)
    script = import_module(f"paper.{name}")
    assert "nan" not in "\n".join([*script.report(run), *script.tables(run)])
    if name == "diabetes":
        assert 0.8 < run.values["fold 0"]["AUROC"] < 1
