"""Objects on their way to other processes: packed once, unpacked once in each process."""

from __future__ import annotations

import pickle
import socket
import traceback
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

from gpec._version import __version__
from gpec.errors import ClusterError, ClusterWarning, GPECError, MissingExtraError, ParameterTypeError

__all__ = ["Payload", "errors_that_travel", "in_turn", "pass_on", "scheduler_lost", "send", "worker_killed"]

T = TypeVar("T")

_UNPACKING, _WORKING = Lock(), Lock()


@dataclass(frozen=True, eq=False)
class Payload:
    """A packed object. Its first user in a process unpacks it; those after get the same one."""

    content: bytes

    @classmethod
    def of(cls, **parts: Any) -> Payload:
        """Pack some objects as a dict.

        Raises
        ------
        ParameterTypeError
            If one of them cannot be packed; the message names it, and what to do.
        """
        cloudpickle = _cloudpickle()
        try:
            content = cloudpickle.dumps(parts, protocol=5)
        except Exception as error:  # whatever the objects' own code raises
            raise _cannot_be_packed(parts, error) from error
        return cls(content)

    def open(self) -> dict[str, Any]:
        """The objects, which must not be changed."""
        with _UNPACKING:
            found: dict[str, Any] = _loaded(self.content)
            return found


@lru_cache(maxsize=2)
def _loaded(content: bytes) -> Any:
    try:
        return pickle.loads(content)  # noqa: S301  packed by our user
    except ImportError as error:
        raise ClusterError(
            f"A process on {socket.gethostname()} cannot import what the model or the explainer needs ({error}); "
            "install it there, or have the process started where it is found."
        ) from error


def send(client: Any, thing: T) -> Any:
    """A future of it: each worker gets it once, and again from the scheduler if all who had it are gone."""
    if not client.nthreads():
        address = client.scheduler.address
        warnings.warn(
            f"The scheduler at {address} has no workers; the work waits for some ('dask worker {address}').",
            ClusterWarning,
            stacklevel=2,
        )
    _require_package(client)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)  # it is sent once
        return client.submit(pass_on, thing, pure=False)


def scheduler_lost(client: Any, error: BaseException) -> bool:
    """Whether an error that no task raised means that the scheduler is gone.

    The connection that fetches results can break before the client has noticed: it then still calls itself running.
    """
    from distributed.comm import CommClosedError

    from distributed import CancelledError

    return isinstance(error, (CancelledError, CommClosedError)) or client.status != "running"


def worker_killed(error: BaseException) -> bool:
    """Whether a task was given up because one worker after the other died with it."""
    from distributed import KilledWorker

    return isinstance(error, KilledWorker)


@contextmanager
def errors_that_travel() -> Iterator[None]:
    """A context for work in another process: the cause of an error becomes text, for not all exceptions can be sent."""
    try:
        yield
    except GPECError as error:
        if error.__cause__ is not None:
            error.__cause__ = RuntimeError("".join(traceback.format_exception(error.__cause__)))
            error.__context__ = None
        raise


def in_turn(alone: bool) -> AbstractContextManager[Any]:
    """A context for work that no other thread of this process may do at the same time, if ``alone``."""
    return _WORKING if alone else nullcontext()


def _require_package(client: Any) -> None:
    """Have the scheduler and its workers import the package, all at the same time.

    Else each would when the one before has passed the work on, and the first that cannot would say so in words of Dask.
    """
    with ThreadPoolExecutor(1) as aside:
        scheduler = aside.submit(client.run_on_scheduler, _version_there)
        found = client.run(_version_there, on_error="return")
        try:
            found["the scheduler"] = scheduler.result()
        except ImportError as error:
            found["the scheduler"] = error
    for who, version in found.items():
        if version != __version__ and not isinstance(version, OSError):  # who has just died is not asked for more
            has = f"cannot use gpec ({version})" if isinstance(version, Exception) else f"has gpec {version}"
            place = who if who == "the scheduler" else f"the worker {who}"
            raise ClusterError(f"Here is gpec {__version__}, but {place} {has}; install the same version there.")


def _version_there() -> str:
    return __version__


def pass_on(thing: T) -> T:
    """A task that all tasks take it from, so that it is in no other."""
    return thing


def _cloudpickle() -> Any:
    try:
        import cloudpickle
    except ImportError as error:
        raise MissingExtraError('Work on a cluster needs dask: pip install "gpec[dask]".') from error
    return cloudpickle


def _cannot_be_packed(parts: dict[str, Any], error: Exception) -> ParameterTypeError:
    """Which of the objects is the cause: the first that cannot be packed alone."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    for name, part in parts.items():
        try:
            _cloudpickle().dumps(part, protocol=5)
        except Exception:
            return ParameterTypeError(
                f"The {name} ({type(part).__name__}) cannot be sent to other processes ({reason}); put it behind a "
                "function of a module that workers can import too, which makes it where it is called, and pass that "
                "function: gpec.models.load_model('package.module:function')."
            )
    return ParameterTypeError(f"The work cannot be sent to other processes ({reason}).")
