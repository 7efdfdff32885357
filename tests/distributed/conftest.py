"""A fitted GPEC of three columns, rows to explain, and a cluster of two processes."""

import numpy as np
import pandas as pd
import pytest

import gpec
from small_models import curved, slopes


@pytest.fixture(scope="session")
def rows():
    """101 rows with labels: their number is prime, so that no partition is like another."""
    values = np.random.default_rng(1).normal(size=(101, 3))
    return pd.DataFrame(values, columns=["a", "b", "c"], index=pd.RangeIndex(1_000, 1_101))


@pytest.fixture(scope="session")
def fitted():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(120, 3)), columns=["a", "b", "c"])
    small = {"n_boundary": 60, "n_explained": 25, "background": 10, "random_state": 0, "progress": False}
    return gpec.GPEC(curved, slopes, **small).fit(X)


@pytest.fixture
def parquet(tmp_path, rows):
    """A folder with four files of these rows; the second has one row."""
    folder = tmp_path / "rows"
    folder.mkdir()
    for i, (start, stop) in enumerate([(0, 40), (40, 41), (41, 90), (90, 101)]):
        rows[start:stop].to_parquet(folder / f"part.{i}.parquet")
    return folder


@pytest.fixture(scope="session")
def client():
    """Two worker processes with one thread each, on the loopback device."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as found,
    ):
        yield found
