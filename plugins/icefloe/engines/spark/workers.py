"""Messages between a driver and its Spark workers.

Workers import this before their libraries are known to be the driver's, so it imports none of them.
"""

import os
import pickle
import platform
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Generic, NamedTuple, TypeVar

from icefloe.errors import IcefloeError, TerminalError, TransientError

_Result = TypeVar("_Result")


class Executor(NamedTuple):
    """The machine's name, and Spark's block folders, which no two executors share."""

    host: str
    folders: str

    @classmethod
    def here(cls) -> "Executor":
        """The executor of this Python worker."""
        return cls(socket.gethostname(), os.environ.get("SPARK_LOCAL_DIRS", ""))

    def refuse_if_in(self, avoided: Collection["Executor"], *, most_tries: int) -> None:
        """Gives this worker's task back to Spark, which then keeps its stage away.

        The last of ``most_tries`` is never refused: Spark would end the job, and with it the tasks that run elsewhere.
        """
        from pyspark import TaskContext

        context = TaskContext.get()
        if self in avoided and context is not None and context.attemptNumber() + 1 < most_tries:
            raise TransientError(f"tasks of this phase failed on host {self.host}: Spark gives this one to another")


class PlacedResult(NamedTuple, Generic[_Result]):
    """The result of a task and its executor."""

    executor: Executor
    result: _Result

    @property
    def error(self) -> IcefloeError | None:
        """The error that the function returned, if it returned one in a named tuple."""
        error = getattr(self.result, "error", None)
        return error if isinstance(error, IcefloeError) else None

    @property
    def may_do_better_elsewhere(self) -> bool:
        """True if the task failed by an error that another machine may not meet."""
        return isinstance(self.error, TransientError) and not self.error.is_met_everywhere

    def named(self) -> "PlacedResult[_Result]":
        """The same, with the host in the sentence of its error."""
        if self.error is None:
            return self
        return self._with(error=self.error.restated(f"{self.error.sentence}; it ran on host {self.executor.host}"))

    def after(self, earlier: "PlacedResult[_Result]") -> "PlacedResult[_Result]":
        """The same, with the requests of the try before."""
        before, now = getattr(earlier.result, "requests", None), getattr(self.result, "requests", None)
        return self if before is None or now is None else self._with(requests=before + now)

    def _with(self, **changes: object) -> "PlacedResult[_Result]":
        outcome: Any = self.result
        return self._replace(result=outcome._replace(**changes))


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
