"""Diabetes in the fasting subsample of NHANES 2013-2014."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from gpec._validation import check_choice
from gpec.datasets.base import stratified_split
from gpec.errors import CorruptFileError
from paper.data._files import File, checked, data_folder
from paper.data._registry import FILES, NHANES_TABLES
from paper.data.base import Dataset

__all__ = ["FEATURES", "nhanes_diabetes"]

_KEY = "SEQN"
_GLUCOSE_OF_DIABETES = 126  # mg/dl, fasting
_TINY = 1e-70  # pandas reads a zero of the SAS transport format as 5.4e-79

# Our name, the CDC's, its table, and the codes of "refused" and "don't know" (for diastolic pressure: no sound heard).
FEATURES: tuple[tuple[str, str, str, tuple[int, ...]], ...] = (
    ("age", "RIDAGEYR", "DEMO_H", ()),
    ("sex", "RIAGENDR", "DEMO_H", ()),
    ("race", "RIDRETH3", "DEMO_H", ()),
    ("income_ratio", "INDFMPIR", "DEMO_H", ()),
    ("bmi", "BMXBMI", "BMX_H", ()),
    ("waist", "BMXWAIST", "BMX_H", ()),
    ("height", "BMXHT", "BMX_H", ()),
    ("leg_length", "BMXLEG", "BMX_H", ()),
    ("heaviest_weight", "WHD140", "WHQ_H", (7777, 9999)),
    ("systolic", "BPXSY1", "BPX_H", ()),
    ("diastolic", "BPXDI1", "BPX_H", (0,)),
    ("cholesterol", "LBXTC", "TCHOL_H", ()),
    ("hdl", "LBDHDD", "HDL_H", ()),
    ("triglycerides", "LBXTR", "TRIGLY_H", ()),
    ("sodium", "LBXSNASI", "BIOPRO_H", ()),
    ("chloride", "LBXSCLSI", "BIOPRO_H", ()),
    ("urea_nitrogen", "LBXSBU", "BIOPRO_H", ()),
    ("osmolality", "LBXSOSSI", "BIOPRO_H", ()),
    ("calories", "DR1TKCAL", "DR1TOT_H", ()),
    ("carbohydrates", "DR1TCARB", "DR1TOT_H", ()),
    ("fibre", "DR1TFIBE", "DR1TOT_H", ()),
    ("caffeine", "DR1TCAFF", "DR1TOT_H", ()),
    ("alcohol", "DR1TALCO", "DR1TOT_H", ()),
    ("self_rated_health", "HUQ010", "HUQ_H", (7, 9)),
    ("hospital_stays", "HUD080", "HUQ_H", (77777, 99999)),
    ("told_high_blood_pressure", "BPQ020", "BPQ_H", (7, 9)),
    ("relative_with_diabetes", "MCQ300C", "MCQ_H", (7, 9)),
)
_YES_NO = ("told_high_blood_pressure", "relative_with_diabetes")
_CATEGORIES = {
    "sex": {1: "male", 2: "female"},
    "race": {
        1: "Mexican American",
        2: "other Hispanic",
        3: "non-Hispanic White",
        4: "non-Hispanic Black",
        6: "non-Hispanic Asian",
        7: "other or several",
    },
}
_LEAK = "osmolality"
_DESCRIPTION = f"""Diabetes in the fasting subsample of NHANES 2013-2014, people of 12 years and older.

Target: told to have diabetes (DIQ010 = 1), or fasting glucose (LBXGLU) of at least {_GLUCOSE_OF_DIABETES} mg/dl.
Missing values are NaN.
Beware: serum osmolality is close to 2 sodium + glucose / 18 + urea nitrogen / 2.8, so with sodium and urea nitrogen it
almost gives the glucose of the target away. That is how such models reach an AUROC of 0.92; without it they reach
0.84 to 0.85 (leaky=False).
Origin: Centers for Disease Control and Prevention, National Center for Health Statistics, National Health and Nutrition
Examination Survey 2013-2014. Licence: US government work, for statistical use only; re-identification is prohibited.
Cite: A. Dinh, S. Miertschin, A. Young and S. Mohanty (2019), A data-driven approach to predicting diabetes and
cardiovascular disease with machine learning, BMC Medical Informatics and Decision Making 19."""


def nhanes_diabetes(*, leaky: bool = True, unknown: Literal["drop", "negative"] = "drop") -> Dataset:
    """Diabetes among 3,183 people of a US health survey (27 features, some of them missing).

    The fasting subsample of NHANES 2013-2014. Positive are those told to have diabetes or with a fasting glucose of at
    least 126 mg/dl. Features, in the spirit of Dinh et al. 2019, with their CDC codes:

    age RIDAGEYR, sex RIAGENDR, race RIDRETH3, family income / poverty line INDFMPIR; BMI BMXBMI, waist BMXWAIST, height
    BMXHT, upper leg length BMXLEG, heaviest weight ever WHD140 (pounds); systolic BPXSY1 and diastolic BPXDI1
    pressure; total LBXTC and HDL LBDHDD cholesterol, triglycerides LBXTR; serum sodium LBXSNASI, chloride LBXSCLSI,
    urea nitrogen LBXSBU and osmolality LBXSOSSI; calories DR1TKCAL, carbohydrates DR1TCARB, fibre DR1TFIBE, caffeine
    DR1TCAFF and alcohol DR1TALCO eaten on one day; self-rated health HUQ010 (1 excellent to 5 poor), overnight hospital
    stays HUD080 (0 without any, HUQ071), told high blood pressure BPQ020, close relative with diabetes MCQ300C.

    Refused and don't-know codes are missing, by each variable's own code, and so is a diastolic pressure of 0 (no sound
    was heard). :class:`gpec.GPEC` takes missing values if the model does; many models want them filled first:
    ``SimpleImputer(strategy="median").set_output(transform="pandas").fit_transform(data.X)``.

    Parameters
    ----------
    leaky : bool
        Keep serum osmolality, which together with sodium and urea nitrogen almost gives glucose away.
    unknown : {"drop", "negative"}
        What to do with the 146 people who were not told to have diabetes and whose glucose was not measured;
        "negative" gives the 3,329 people of the paper.
    """
    check_choice("leaky", leaky, (True, False))
    check_choice("unknown", unknown, ("drop", "negative"))
    tables = {name: _read(file, name) for name, file in zip(NHANES_TABLES, FILES["nhanes_diabetes"], strict=True)}
    glucose = tables["GLU_H"]["LBXGLU"]
    told = tables["DIQ_H"]["DIQ010"].reindex(glucose.index) == 1
    X = pd.DataFrame(index=glucose.index)
    for name, code, table, codes_of_missing in FEATURES:
        column = tables[table][code].reindex(X.index)
        if name == "hospital_stays":
            column = column.mask(tables["HUQ_H"]["HUQ071"].reindex(X.index) == 2, 0.0)
        column = column.mask(column.isin(codes_of_missing))
        X[name] = column.map({1: 1.0, 2: 0.0}) if name in _YES_NO else column.astype(np.float64)
    y = (told | (glucose >= _GLUCOSE_OF_DIABETES)).to_numpy().astype(np.int64)
    if unknown == "drop":
        known = (told | glucose.notna()).to_numpy()
        X, y = X[known], y[known]
    if not leaky:
        X = X.drop(columns=_LEAK)
    X = X.reset_index(drop=True).astype(dict.fromkeys(_CATEGORIES, np.int64))
    train, test = stratified_split(y)
    names = tuple(X.columns)
    return Dataset(
        "nhanes_diabetes", X, y, names, ("no diabetes", "diabetes"), train, test, _DESCRIPTION,
        categorical_features=tuple(_CATEGORIES), categories=_CATEGORIES,
    )  # fmt: skip


def _read(file: File, name: str) -> pd.DataFrame:
    """A table by its key, from the CDC's transport file or a CSV conversion of it in a folder given by the user."""
    folder, _ = data_folder()
    converted = (folder / file.path).with_suffix(".csv.xz")
    if not (folder / file.path).is_file() and converted.is_file():
        return _parse(converted, name)
    return _parse(checked(file, lambda path: _parse(path, name)), name)


def _parse(path: Path, name: str) -> pd.DataFrame:
    try:
        if path.suffix == ".xz":
            table = pd.read_csv(path)
        else:
            table = pd.read_sas(path, format="xport")
            table = table.mask(table.abs() < _TINY, 0.0)
    except (ValueError, EOFError, lzma.LZMAError, UnicodeDecodeError, OverflowError) as error:
        raise CorruptFileError(f"{path} cannot be read as the NHANES table {name} ({error}).") from error
    rows, columns = NHANES_TABLES[name]
    if table.shape != (rows, columns) or _KEY not in table or table[_KEY].duplicated().any():
        raise CorruptFileError(
            f"{path} has shape {table.shape}; the NHANES table {name} has {rows:,} rows, {columns} columns and "
            f"distinct {_KEY}."
        )
    return table.set_index(_KEY)
