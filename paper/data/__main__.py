"""List the data sets, or write one to a CSV file: ``python -m paper.data [NAME] [--out FILE]``."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from paper import data


def main() -> None:
    there = data.available()
    parser = argparse.ArgumentParser(prog="python -m paper.data", description=__doc__)
    parser.add_argument("name", nargs="?", help="a table to write, with its classes in the column 'target'")
    parser.add_argument("--out", type=Path, help="the CSV file (NAME.csv)")
    asked = parser.parse_args()
    if asked.name is None:
        print(there.to_string())
        return
    if asked.name not in there.index:
        parser.error(f"there is no data set {asked.name!r}; there are {', '.join(there.index)}")
    found = getattr(data, asked.name)()
    if not isinstance(found.X, pd.DataFrame):
        parser.error(f"{asked.name} holds images, which have no columns; load it by paper.data.{asked.name}()")
    target = [found.class_names[label] for label in found.y] if found.class_names else found.y
    out = asked.out or Path(f"{asked.name}.csv")
    found.X.assign(target=target).to_csv(out, index=False)
    print(f"Wrote {out}.")


if __name__ == "__main__":
    main()
