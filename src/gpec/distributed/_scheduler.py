"""Runs tasks on a Dask cluster, or with one of Dask's schedulers on this machine."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal

from gpec._validation import check_installed
from gpec.distributed._file import Job, explain_file
from gpec.distributed._task import ExplainTask
from gpec.errors import ClusterError, GPECError, ParameterTypeError
from gpec.runtime.payload import WorkerWatch, pass_through, picklable_errors, scheduler_lost, send
from gpec.runtime.progress import progress_bar

_LOCAL = ("synchronous", "threads", "processes")
_SECONDS = 10  # to find the scheduler
_PAUSE = 0.05  # seconds between two looks for finished files


@contextmanager
def running_on(scheduler: Any) -> Iterator[Any]:
    """The client of a cluster, or the word for a scheduler on this machine."""
    distributed = check_installed("distributed", "Explaining a folder of files", '"gpec[dask]"')
    if scheduler is None:
        client: Any = "synchronous"
        with suppress(ValueError):  # there is none
            client = distributed.default_client()
        yield client
    elif isinstance(scheduler, distributed.Client) or (isinstance(scheduler, str) and scheduler in _LOCAL):
        yield scheduler
    elif isinstance(scheduler, str) and ":" in scheduler:
        try:
            client = distributed.Client(scheduler, timeout=_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(
                f"No scheduler answers at {scheduler} ({' '.join(str(error).split())}); start one with 'dask "
                "scheduler', or give the address that it printed."
            ) from error
        try:
            yield client
        finally:
            _close(client)
    else:
        raise ParameterTypeError(
            f"scheduler={scheduler!r} must be a Client, the address of a scheduler such as 'tcp://host:8786', or one "
            f"of {', '.join(_LOCAL)}."
        )


def run_jobs(where: Any, task: ExplainTask, jobs: list[Job], progress: Literal["auto"] | bool) -> list[tuple[int, int]]:
    """Explain each file, and return the numbers of rows; finished files stay if others fail."""
    if not jobs:
        return []
    if not isinstance(where, str):
        return _run_on_cluster(where, task, jobs, progress)
    import dask

    sent = dask.delayed(pass_through)(task)
    work = dask.delayed(_explain_there if where == "processes" else explain_file)
    tasks = [work(task=sent, job=job) for job in jobs]
    return list(dask.compute(*tasks, scheduler=where))


def _run_on_cluster(
    client: Any, task: ExplainTask, jobs: list[Job], progress: Literal["auto"] | bool
) -> list[tuple[int, int]]:
    import distributed

    address = str(client.scheduler.address) if client.scheduler is not None else "its address"
    futures, lost = [], False
    counts: dict[str, tuple[int, int]] = {}
    try:
        futures = client.map(_explain_there, jobs, task=send(client, task), pure=False)
        with progress_bar(len(jobs), "partitions", progress) as bar:
            waiting, watch = distributed.as_completed(futures, loop=client.loop), WorkerWatch(client)
            while not waiting.is_empty():
                if not waiting.has_ready():
                    time.sleep(_PAUSE)
                    watch.check()
                for future in waiting.next_batch(block=False):
                    counts[future.key] = watch.result(future)  # raises the task's error, or that it was cancelled
                    bar.update()
        return [counts[future.key] for future in futures]
    except distributed.KilledWorker as error:
        partition = next(
            (job.partition for job, future in zip(jobs, futures, strict=True) if future.key == error.task), "?"
        )
        raise ClusterError(
            f"{partition} was with several workers when they died, most likely for lack of memory; it may be the "
            "cause, or a partition beside it. Give workers more memory or fewer threads."
        ) from error
    except GPECError:
        raise
    except (OSError, distributed.CancelledError, distributed.TimeoutError, RuntimeError) as error:
        lost = scheduler_lost(client, error) and not any(future.status == "error" for future in futures)
        if not lost:
            raise
        raise ClusterError(f"The scheduler at {address} was lost; start the cluster again.") from error
    finally:
        if not lost:  # a scheduler that is gone has nothing to cancel
            with suppress(Exception):
                client.cancel(futures)


def _close(client: Any) -> None:
    """Close our client without its log, which would report attempts to reconnect."""
    printer = logging.getLogger("distributed.client")
    silent, printer.disabled = printer.disabled, True
    try:
        client.close()
    finally:
        printer.disabled = silent


def _explain_there(job: Job, task: ExplainTask) -> tuple[int, int]:
    with picklable_errors():
        return explain_file(task, job)
