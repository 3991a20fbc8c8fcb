"""Messages between a driver and its Spark workers.

Workers import this before their libraries are known to be the driver's, so it imports none of them.
"""

import pickle
import platform
import socket
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Generic, NamedTuple, TypeVar

from icefloe.errors import IcefloeError, TerminalError, TransientError

_Result = TypeVar("_Result")


def final_result(result: _Result, *, most_tries: int) -> _Result:
    """The result of a task, whose error names this host if there are others.

    Raises:
        TransientError: another machine may not meet the error, and Spark has tries of ``most_tries`` left.
    """
    error = getattr(result, "error", None)
    if most_tries == 1 or not isinstance(error, IcefloeError):
        return result
    from pyspark import TaskContext

    context = TaskContext.get()
    has_tries = context is not None and context.attemptNumber() + 1 < most_tries
    if has_tries and isinstance(error, TransientError) and not error.is_met_everywhere:
        raise error
    outcome: Any = result
    named: _Result = outcome._replace(error=error.restated(f"{error.sentence}; it ran on host {socket.gethostname()}"))
    return named


_LIBRARIES: Final = ("pyarrow", "numpy", "obstore", "lz4", "pyroaring", "pyiceberg", "pydantic")


class WorkerLibraries(NamedTuple):
    """The libraries of a worker that are not the driver's; None if missing. Its task was not begun."""

    versions: Mapping[str, str | None]

    def as_error(self) -> TerminalError:
        """The error that names every difference: rows and documents pass between driver and workers."""
        return TerminalError(
            f"the Spark workers have {', '.join(_differences(found_libraries(), self.versions))}: run them from the "
            "driver's environment, which `make env` packs for spark.archives, or from the same image"
        )


class CheckedTask(Generic[_Result]):
    """A function unpacked only in workers with the driver's libraries: its modules need them.

    Each worker looks with each task: a job that asks first would take a second of every phase and ask one worker.
    """

    def __init__(self, function: Callable[[int], _Result]) -> None:
        from pyspark.serializers import CloudPickleSerializer

        self._driver = found_libraries()
        self._packed: bytes = CloudPickleSerializer().dumps(function)

    def __call__(self, number: int) -> _Result | WorkerLibraries:
        """Without the driver's libraries: those of this worker."""
        found = found_libraries()
        if found != self._driver:
            return WorkerLibraries(found)
        function: Callable[[int], _Result] = pickle.loads(self._packed)  # noqa: S301 - the driver's own
        return function(number)


def found_libraries() -> dict[str, str | None]:
    """The versions here; None for a library that is not installed."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"Python": python, **{name: _version(name) for name in _LIBRARIES}}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _differences(driver: Mapping[str, str | None], worker: Mapping[str, str | None]) -> Iterator[str]:
    for name, found in driver.items():
        if worker[name] is None and found is not None:
            yield f"no {name}"
        elif worker[name] != found:
            yield f"{name} {worker[name]} instead of {found}"
