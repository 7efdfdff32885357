"""Objects sent to other processes: pickled once, and unpickled once in each process."""

from __future__ import annotations

import pickle
import socket
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

from gpec._validation import check_installed
from gpec._version import __version__
from gpec.errors import ClusterError, ClusterWarning, GPECError, ParameterTypeError

T = TypeVar("T")

_UNPICKLING, _WORKING = Lock(), Lock()
WAIT_FOR_WORKERS = 300.0  # seconds
ASKED_EVERY = 5.0  # seconds


@dataclass(frozen=True, eq=False)
class Payload:
    """Pickled objects. The first call of :meth:`open` in a process unpickles them; later calls return the same."""

    content: bytes

    @classmethod
    def of(cls, **parts: Any) -> Payload:
        """Pickle some objects as a dict.

        Raises
        ------
        ParameterTypeError
            If one of them cannot be pickled; the message names it and a remedy.
        """
        cloudpickle = check_installed("cloudpickle", "Work on a cluster", '"gpec[dask]"')
        try:
            content = cloudpickle.dumps(parts, protocol=5)
        except Exception as error:  # the objects' own code can raise anything
            raise _pickling_error(parts, cloudpickle.dumps, error) from error
        return cls(content)

    def open(self) -> dict[str, Any]:
        """The objects, which must not be changed."""
        with _UNPICKLING:
            objects: dict[str, Any] = _loaded(self.content)
            return objects


@lru_cache(maxsize=2)
def _loaded(content: bytes) -> Any:
    try:
        return pickle.loads(content)  # noqa: S301  pickled by our user
    except ImportError as error:
        raise ClusterError(
            f"A process on {socket.gethostname()} cannot import what the model or the explainer needs ({error}); "
            "install it there, or start the process where it can be imported."
        ) from error


def send(client: Any, value: T) -> Any:
    """A future of an object, which is sent once to each worker."""
    if not client.nthreads():
        address = client.scheduler.address
        warnings.warn(
            f"The scheduler at {address} has no workers; the work waits {WAIT_FOR_WORKERS:g} seconds until one starts "
            f"('dask worker {address}').",
            ClusterWarning,
            stacklevel=2,
        )
    _require_package(client)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)  # it is sent only once
        return client.submit(pass_through, value, pure=False)


class WorkerWatch:
    """Raises if the cluster has had no workers for some minutes: work would wait for ever."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._seen = self._asked = time.monotonic()

    def check(self) -> None:
        """Ask the scheduler for its workers, at most once in a few seconds."""
        now = time.monotonic()
        if now - self._asked < ASKED_EVERY:
            return
        self._asked = now
        if self._client.nthreads():
            self._seen = now
        elif now - self._seen > WAIT_FOR_WORKERS:
            raise ClusterError(
                f"The cluster has had no workers for {now - self._seen:.0f} seconds; start workers ('dask worker "
                f"{self._client.scheduler.address}') and run the work again."
            )

    def result(self, future: Any) -> Any:
        """The result of a future."""
        from distributed import TimeoutError as NotYet

        while True:
            try:
                return future.result(timeout=ASKED_EVERY)
            except NotYet:
                if future.done():  # it was the task that raised this
                    raise
            self.check()


def scheduler_lost(client: Any, error: BaseException) -> bool:
    """Whether an error that was not raised by a task means that the scheduler was lost.

    The connection that fetches results can break first. The status of the client is then still "running".
    """
    from distributed.comm import CommClosedError

    from distributed import CancelledError

    return isinstance(error, (CancelledError, CommClosedError)) or client.status != "running"


@contextmanager
def picklable_errors() -> Iterator[None]:
    """A context for work in another process. The cause of an error becomes text, as not all exceptions can be sent."""
    try:
        yield
    except GPECError as error:
        if error.__cause__ is not None:
            error.__cause__ = RuntimeError("".join(traceback.format_exception(error.__cause__)))
            error.__context__ = None
        raise


def one_at_a_time(alone: bool) -> AbstractContextManager[Any]:
    """A context that only one thread of this process can enter at a time, if ``alone``."""
    return _WORKING if alone else nullcontext()


def _require_package(client: Any) -> None:
    """Let the scheduler and its workers import the package, all at the same time, and compare versions.

    Otherwise each would import it only when it receives work, and a failure would be reported by an error of Dask.
    """
    with ThreadPoolExecutor(1) as executor:
        scheduler = executor.submit(client.run_on_scheduler, _worker_version)
        versions = client.run(_worker_version, on_error="return")
        try:
            versions["the scheduler"] = scheduler.result()
        except ImportError as error:
            versions["the scheduler"] = error
    for name, version in versions.items():
        if version != __version__ and not isinstance(version, OSError):  # OSError: the worker has just died
            problem = f"cannot use gpec ({version})" if isinstance(version, Exception) else f"has gpec {version}"
            process = name if name == "the scheduler" else f"the worker {name}"
            raise ClusterError(
                f"This process has gpec {__version__}, but {process} {problem}; install the same version there."
            )


def _worker_version() -> str:
    return __version__


def pass_through(value: T) -> T:
    """The task whose result is the object, so that the other tasks refer to it and do not contain it."""
    return value


def _pickling_error(parts: dict[str, Any], dumps: Callable[..., bytes], error: Exception) -> ParameterTypeError:
    """The error for objects that cannot be pickled; it names the first that cannot be pickled alone."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    for name, part in parts.items():
        try:
            dumps(part, protocol=5)
        except Exception:
            return ParameterTypeError(
                f"The {name} ({type(part).__name__}) cannot be sent to other processes ({reason}); write a function "
                "that makes it, in a module that workers can import, and pass "
                "gpec.models.load_model('package.module:function')."
            )
    return ParameterTypeError(f"The work cannot be sent to other processes ({reason}).")
