"""Small made-up files in the formats and with the columns of the real data files.

``write`` puts them into a folder and returns registry entries with their own sums and shapes, so that the loaders check
them as they check the real ones.
"""

import gzip
import hashlib
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from paper.data import _registry
from paper.data.nhanes import FEATURES
from paper.data.tables import _GERMAN, _MONTHS, _PIMA, _RELATIONSHIP

N = 300  # rows of each table
PEOPLE = 240  # of the survey, in the fasting subsample
IMAGES, TEST_IMAGES = 60, 20  # of each set, of a batch


def _yes(rng, score, share=0.3):
    """True for about this share of rows: those with the highest score, plus noise."""
    noisy = score + 0.3 * score.std() * rng.normal(size=len(score))
    return noisy > np.quantile(noisy, 1 - share)


def census(rng):
    age, education, hours = rng.integers(17, 90, N), rng.integers(1, 17, N), rng.integers(5, 99, N)
    income = _yes(rng, 2 * education + np.minimum(hours, 50) / 5 - np.abs(age - 50) / 10)
    columns = {
        "age": age,
        "workclass": rng.choice(["?", "Private", "State-gov"], N),
        "fnlwgt": rng.integers(10_000, 900_000, N),
        "education": rng.choice(["Bachelors", "HS-grad"], N),
        "education_num": education,
        "marital": rng.choice(["Divorced", "Married-civ-spouse", "Never-married"], N),
        "occupation": rng.choice(["?", "Adm-clerical", "Sales", "Tech-support"], N),
        "relationship": rng.choice(_RELATIONSHIP, N),
        "race": rng.choice(["Black", "Other", "White"], N),
        "sex": rng.choice(["Female", "Male"], N),
        "gain": rng.choice([0, 2_174, 14_084], N, p=[0.9, 0.05, 0.05]),
        "loss": rng.choice([0, 1_902], N, p=[0.95, 0.05]),
        "hours": hours,
        "country": rng.choice(["?", "Mexico", "United-States"], N),
        "income": np.where(income, ">50K", "<=50K"),
    }
    lines = [", ".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    return "\n".join(lines) + "\n\n"  # the real file ends with an empty line


def online_shoppers(rng):
    value, pages = np.round(rng.exponential(5, N) * (rng.random(N) < 0.3), 2), rng.integers(1, 90, N)
    table = pd.DataFrame(
        {
            "Administrative": rng.integers(0, 9, N),
            "Administrative_Duration": rng.exponential(80, N).round(2),
            "Informational": rng.integers(0, 4, N),
            "Informational_Duration": rng.exponential(30, N).round(2),
            "ProductRelated": pages,
            "ProductRelated_Duration": (pages * rng.exponential(30, N)).round(2),
            "BounceRates": rng.uniform(0, 0.2, N).round(4),
            "ExitRates": rng.uniform(0, 0.2, N).round(4),
            "PageValues": value,
            "SpecialDay": rng.choice([0.0, 0.4, 1.0], N),
            "Month": rng.choice(list(_MONTHS), N),
            "OperatingSystems": rng.integers(1, 4, N),
            "Browser": rng.integers(1, 5, N),
            "Region": rng.integers(1, 10, N),
            "TrafficType": rng.integers(1, 8, N),
            "VisitorType": rng.choice(["New_Visitor", "Other", "Returning_Visitor"], N),
            "Weekend": np.where(rng.random(N) < 0.2, "TRUE", "FALSE"),
            "Revenue": np.where(_yes(rng, value + pages / 30), "TRUE", "FALSE"),
        }
    )
    return table.to_csv(index=False)


def german_credit(rng):
    table = pd.DataFrame({name: rng.integers(0, 5, N) for name in _GERMAN})
    table["amount_hundreds"], table["duration_months"] = rng.integers(3, 160, N), rng.integers(4, 60, N)
    table["age"] = rng.integers(19, 75, N)
    bad = _yes(rng, table["duration_months"] / 20 + table["amount_hundreds"] / 60 - 0.5 * table["checking_status"])
    lines = [" ".join(f"{number:3}" for number in row) for row in table.assign(label=bad + 1).to_numpy()]
    return " \n".join(lines) + " \n"


def pima(rng):
    table = pd.DataFrame({name: rng.integers(0, 90, N) for name in _PIMA}).assign(pedigree=rng.random(N).round(3))
    return table.assign(label=_yes(rng, table["glucose"]).astype(int)).to_csv(index=False, header=False)


def titanic(rng):
    male, age = rng.random(N) < 0.6, np.where(rng.random(N) < 0.2, np.nan, rng.integers(1, 75, N))
    port, rank, family = rng.choice(["C", "Q", "S", ""], N), rng.integers(1, 4, N), rng.integers(0, 3, N)
    survived = _yes(rng, 2.0 * ~male - rank, 0.4)
    adult = male & ~(age < 16)
    table = pd.DataFrame(
        {
            "survived": survived.astype(int),
            "pclass": rank,
            "sex": np.where(male, "male", "female"),
            "age": age,
            "sibsp": family,
            "parch": rng.integers(0, 3, N) * (family > 0),
            "fare": rng.exponential(30, N).round(4),
            "embarked": port,
            "class": pd.Series(rank).map({1: "First", 2: "Second", 3: "Third"}),
            "who": np.where(adult, "man", np.where(male, "child", "woman")),
            "adult_male": adult,
            "deck": rng.choice(["A", "C", ""], N, p=[0.1, 0.15, 0.75]),
            "embark_town": pd.Series(port).map({"C": "Cherbourg", "Q": "Queenstown", "S": "Southampton", "": ""}),
            "alive": np.where(survived, "yes", "no"),
            "alone": family == 0,
        }
    )
    return table.to_csv(index=False)


def california_housing(rng):
    income, households = rng.uniform(0.5, 12, N).round(4), rng.integers(10, 2_000, N).astype(float)
    bedrooms = np.where(rng.random(N) < 0.05, np.nan, households + rng.integers(0, 50, N))
    table = pd.DataFrame(
        {
            "longitude": rng.uniform(-124, -114, N).round(2),
            "latitude": rng.uniform(33, 42, N).round(2),
            "housing_median_age": rng.integers(1, 53, N).astype(float),
            "total_rooms": 5 * households,
            "total_bedrooms": bedrooms,
            "population": 3 * households,
            "households": households,
            "median_income": income,
            "median_house_value": np.minimum(40_000 * income + 10_000 * rng.normal(size=N), 500_001).round(),
            "ocean_proximity": rng.choice(["<1H OCEAN", "INLAND", "NEAR BAY"], N),
        }
    )
    return table.to_csv(index=False)


def survey():
    """The NHANES tables by name; half of the people are in the fasting subsample, ``GLU_H``.

    Glucose grows with age; the youngest have none.
    """
    rng, n = np.random.default_rng(1), 2 * PEOPLE
    key = pd.RangeIndex(73_557, 73_557 + n, name="SEQN")
    tables = {name: pd.DataFrame(index=key) for name in _registry.NHANES_TABLES}
    for _, code, name, _ in FEATURES:
        tables[name][code] = rng.normal(100, 20, n).round(1)
    age, sodium, urea, stayed = (rng.integers(low, high, n) for low, high in ((12, 81), (130, 150), (4, 30), (1, 3)))
    glucose = np.round(60 + age + 10 * rng.normal(size=n))
    for name, code, numbers in (
        ("DEMO_H", "RIDAGEYR", age),
        ("DEMO_H", "RIAGENDR", rng.integers(1, 3, n)),
        ("DEMO_H", "RIDRETH3", rng.choice([1, 2, 3, 4, 6, 7], n)),
        ("BIOPRO_H", "LBXSNASI", sodium),
        ("BIOPRO_H", "LBXSBU", urea),
        ("BIOPRO_H", "LBXSOSSI", np.round(2 * sodium + glucose / 18 + urea / 2.8)),
        ("BPX_H", "BPXDI1", rng.choice([0, 60, 70, 80], n)),
        ("WHQ_H", "WHD140", rng.choice([120, 150, 200, 7_777, 9_999], n)),
        ("HUQ_H", "HUQ010", rng.choice([1, 2, 3, 4, 5, 9], n)),
        ("HUQ_H", "HUQ071", stayed),
        ("HUQ_H", "HUD080", np.where(stayed == 1, rng.integers(1, 7, n), np.nan)),
        ("BPQ_H", "BPQ020", rng.choice([1, 2, 9], n)),
        ("MCQ_H", "MCQ300C", rng.choice([1, 2, 7], n)),
        ("DIQ_H", "DIQ010", np.where(glucose > 140, 1, 2)),
        ("GLU_H", "LBXGLU", glucose),
    ):
        tables[name][code] = numbers
    tables["GLU_H"] = tables["GLU_H"].iloc[:PEOPLE].mask(age[:PEOPLE, None] == age.min())
    return {name: table.reset_index() for name, table in tables.items()}


def idx(values):
    """An IDX file of bytes, compressed."""
    shape = b"".join(length.to_bytes(4, "big") for length in values.shape)
    return gzip.compress(bytes([0, 0, 8, values.ndim]) + shape + values.astype(np.uint8).tobytes(), mtime=0)


def grey_images(rng):
    """Four files: images to train with their labels, and images to test with theirs."""
    found = []
    for n in (IMAGES, TEST_IMAGES):
        labels = np.arange(n) % 10
        found += [idx(_banded(rng, labels, 28, 28)), idx(labels)]
    return found


def _banded(rng, labels, *shape):
    """Dark images, each with a bright band whose height tells the class."""
    X = rng.integers(0, 60, size=(len(labels), *shape), dtype=np.uint8)
    for image, label in zip(X, labels, strict=True):
        image[..., 2 * label : 2 * label + 6, 8:20] += 180
    return X


def cifar_batch(rng, n=TEST_IMAGES):
    labels = np.arange(n) % 10
    return np.column_stack((labels.astype(np.uint8), _banded(rng, labels, 3, 32, 32).reshape(n, -1))).tobytes()


def contents(seed=0):
    """For each data set the contents of its files, in the order of the registry."""
    rng = np.random.default_rng(seed)
    tables = (census, online_shoppers, german_credit, pima, titanic, california_housing)
    found = {make.__name__: [make(rng).encode()] for make in tables}
    found["mnist"], found["fashion_mnist"] = grey_images(rng), grey_images(rng)
    found["cifar10"] = [cifar_batch(rng) for _ in _registry.CIFAR_BATCHES]
    return found


def write(folder):
    """Write all files below ``folder``; return its entries of ``FILES`` and ``NHANES_TABLES``."""
    files = {}
    for name, written in contents().items():
        files[name] = tuple(
            replace(file, size=len(content), sha256=hashlib.sha256(content).hexdigest())
            for file, content in zip(_registry.FILES[name], written, strict=True)
        )
        for file, content in zip(files[name], written, strict=True):
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    tables = survey()
    (folder / "nhanes_2013_2014").mkdir()
    for name, table in tables.items():
        table.to_csv(folder / "nhanes_2013_2014" / f"{name}.csv.xz", index=False)
    return files, {name: table.shape for name, table in tables.items()}


@contextmanager
def in_use(folder, files, shapes):
    """``GPEC_DATA`` names the folder that ``write`` filled, and the registry describes its files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPEC_DATA", str(folder))
        for registry, entries in ((_registry.FILES, files), (_registry.NHANES_TABLES, shapes)):
            for name, entry in entries.items():
                patch.setitem(registry, name, entry)
        yield folder
