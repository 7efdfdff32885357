"""``gpec`` with a model that predicts a number."""

import json

import numpy as np
import pandas as pd
import pytest
from cli_helpers import QUICK, call, explain, table

MODEL = """
def price(X):
    return 1_000.0 + 50.0 * X["income"].to_numpy() - 20.0 * X["debt"].to_numpy() * X["age"].to_numpy()

class Price:
    def predict(self, X):
        return price(X)

model = Price()
"""


@pytest.fixture
def prices(folder):
    (folder / "price_model.py").write_text(MODEL)
    table(120, 0).to_csv(folder / "train.csv", index=False)
    return folder


@pytest.mark.parametrize(("model", "words"), [("model", ()), ("price", ("--model-output", "value"))])
def test_explain(prices, model, words):
    result = explain("--out", "e.json", "--explainer", "exact", *words, model=f"price_model:{model}")
    assert result.exit_code == 0, result.output
    found = json.loads((prices / "e.json").read_text())
    assert "class" not in found["statement"]
    lines = pd.DataFrame(found["attributions"])
    assert "output" not in lines.columns
    assert len(lines) == 36
    assert found["settings"]["unit"] == "output"


def test_fit_then_report(prices):
    pytest.importorskip("jinja2")
    made = call("fit", "train.csv", "--model", "price_model:model", "--out", "price.gpec", *QUICK)
    assert made.exit_code == 0, made.output
    words = ["--model", "price_model:model", "--fitted", "price.gpec", "--out", "r.html", "--no-progress"]
    shown = call("report", "new.csv", *words)
    assert shown.exit_code == 0, shown.output
    assert "Points on level sets" in (prices / "r.html").read_text()


def test_a_price_is_no_probability(prices):
    result = explain("--out", "e.csv", model="price_model:price")
    assert result.exit_code != 0
    assert "if it is a regressor, model_output='value'" in " ".join(result.output.split())
    assert np.all([not path.name.startswith("e.") for path in prices.iterdir()])
