"""Many rows on many machines: Dask frames and folders of Parquet files, one task for each partition.

Dask does the scheduling, the retries and the dashboard. It is imported on first use; install it with
``pip install "gpec[dask]"``.
"""

from gpec.distributed._frames import explain
from gpec.distributed._parquet import Run, explain_parquet

__all__ = ["Run", "explain", "explain_parquet"]
