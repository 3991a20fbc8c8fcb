"""The Spark engine: one Spark task per number; secrets travel inside the closure.

Workers import this before their libraries are known to be the driver's, so it imports none of them.
"""

import pickle
import platform
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.redacted_output import outgoing_errors, outgoing_logs
from icefloe.redaction.hidden import redacted_foreign

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext

__all__ = ["CheckedTask"]

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


class SparkEngine:
    """Runs tasks on the executors of a Spark application."""

    def __init__(self, spark: "SparkContext", *, checks_libraries: bool = True) -> None:
        self._spark = spark
        self._checks_libraries = checks_libraries  # False if the workers are the driver's own interpreter

    def map(self, function: Callable[[int], _Result], numbers: Sequence[int]) -> list[_Result]:
        """The results in the order of ``numbers``, in which Spark starts its tasks."""
        # The function returns errors that must come back as they are (`TaskOutcome`): raised, they would be text. One
        # that another machine may not meet is raised all the same while Spark has tries left, perhaps elsewhere.
        from py4j.protocol import Py4JJavaError

        if not numbers:
            return []
        call = CheckedTask(function) if self._checks_libraries else function
        most_tries = self._most_tries()

        def apply(partition: Iterable[int]) -> Iterator[_Result | TerminalError]:
            # The executor's log and the driver get an error from here with all its causes.
            with outgoing_logs(), outgoing_errors():
                for number in partition:
                    yield final_result(call(number), most_tries=most_tries)

        try:
            # A partition per number: Spark repeats whole partitions, and no number that is done should be done again.
            answers: list[Any] = self._spark.parallelize(numbers, len(numbers)).mapPartitions(apply).collect()
        except Py4JJavaError as cause:
            raise TransientError(_sentence(_last_words(cause), len(numbers))) from cause
        for answer in answers:
            if isinstance(answer, TerminalError):
                raise answer
        return answers

    def _most_tries(self) -> int:
        """Tries of a task with which Spark ends the job; 1 without other machines."""
        # The master needs some of the libraries.
        from icefloe.engines.spark.master import runs_in_driver

        if runs_in_driver(self._spark.master):
            return 1
        return int(self._spark.getConf().get("spark.task.maxFailures") or "4")


def _sentence(said: str, tasks: int) -> str:
    from pyspark import __version__

    return (
        f"Spark gave up on {tasks} tasks: {said}; if its workers were killed (exit code 137), memory ran out: raise "
        "spark.executor.memoryOverhead to cores x (shuffle.memory_bytes + 512 MiB), or lower shuffle.memory_bytes; if "
        f"they do not start, see that the cluster runs Spark {__version__} as this driver does; set "
        "spark.pyspark.python to a Python of the driver's minor version that is there"
    )


def _last_words(error: "Py4JJavaError") -> str:
    """The first line of Spark's message and the Python error at its end."""
    lines = [line.strip() for line in str(error.java_exception.getMessage()).splitlines() if line.strip()]
    raised = [line for line in lines if not line.startswith(("at ", "File ", "Traceback", "Driver stacktrace", "... "))]
    said = " ... ".join(dict.fromkeys([lines[0], raised[-1]])) if raised else str(error.java_exception)
    return redacted_foreign(said)


def final_result(result: _Result, *, most_tries: int) -> _Result:
    """The result of a task, whose error names this host if there are others."""
    # TransientError: another machine may not meet the error, and Spark has tries of `most_tries` left.
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


class CheckedTask(Generic[_Argument, _Result]):
    """A function unpacked only in workers with the driver's libraries: its modules need them."""

    # Each worker looks with each task: a job that asks first would take a second of every phase and ask one worker.

    def __init__(self, function: Callable[[_Argument], _Result]) -> None:
        from pyspark.serializers import CloudPickleSerializer

        self._driver = found_libraries()
        self._packed: bytes = CloudPickleSerializer().dumps(function)

    def __call__(self, argument: _Argument) -> _Result | TerminalError:
        """Without the libraries of the driver, which reads its rows: the error that names every difference."""
        found = found_libraries()
        if found != self._driver:
            return TerminalError(
                f"the Spark workers have {', '.join(_differences(self._driver, found))}: run them from the driver's "
                "environment, which `make env` packs for spark.archives, or from the same image"
            )
        function: Callable[[_Argument], _Result] = pickle.loads(self._packed)  # noqa: S301 - the driver's own
        return function(argument)


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
