"""What there is, and what of it is here."""

from __future__ import annotations

import pandas as pd

from paper.data._files import File, data_folder, is_here
from paper.data._registry import FILES

__all__ = ["available"]

# rows, features, classes (0 for a numeric target)
_SIZES = {
    "census": (32_561, 12, 2),
    "online_shoppers": (12_330, 17, 2),
    "german_credit": (1_000, 24, 2),
    "nhanes_diabetes": (3_183, 27, 2),
    "pima": (768, 8, 2),
    "titanic": (891, 13, 2),
    "california_housing": (20_640, 9, 0),
    "mnist": (70_000, 784, 10),
    "fashion_mnist": (70_000, 784, 10),
    "cifar10": (60_000, 3_072, 10),
}


def available() -> pd.DataFrame:
    """All data sets: their size, what there is to download, and whether it is here already.

    Returns
    -------
    DataFrame
        One row for each loader, with ``rows``, ``features``, ``classes`` (0 for a numeric target), ``megabytes`` (to
        download) and ``cached`` (in the cache, or in the folder named by ``GPEC_DATA``).
    """
    lines = []
    for name, (rows, features, classes) in _SIZES.items():
        files = FILES[name]
        size = round(sum(file.size for file in files) / 1e6, 1)
        lines.append((name, rows, features, classes, size, all(_any_form_here(file) for file in files)))
    columns = ["name", "rows", "features", "classes", "megabytes", "cached"]
    return pd.DataFrame(lines, columns=columns).set_index("name")


def _any_form_here(file: File) -> bool:
    return is_here(file) or (data_folder()[0] / file.path).with_suffix(".csv.xz").is_file()
