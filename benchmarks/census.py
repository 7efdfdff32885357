"""The Census data and the model all benchmarks share."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost

COLUMNS = [
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race",
    "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
]  # fmt: skip


def load():
    """12 features as codes (32,561 rows), and whether income exceeds 50,000 dollars."""
    folder = os.environ.get("GPEC_DATA")
    if not folder:
        raise SystemExit("Set GPEC_DATA to a folder with adult/adult.data (UCI Adult) to run the benchmarks.")
    table = pd.read_csv(Path(folder) / "adult" / "adult.data", names=COLUMNS, skipinitialspace=True)
    target = (table.pop("income") == ">50K").to_numpy().astype(int)
    table = table.drop(columns=["fnlwgt", "education"])
    for column in table.columns:
        if not pd.api.types.is_numeric_dtype(table[column]):
            table[column] = table[column].astype("category").cat.codes
    return np.asarray(table, dtype=float), target


def model_and_rows():
    X, y = load()
    return xgboost.XGBClassifier(random_state=0, n_jobs=2).fit(X, y), X
