"""The Spark engine: one Spark task per number; secrets travel inside the closure."""

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from icefloe.engines.spark.workers import CheckedTask, WorkerLibraries, final_result
from icefloe.errors import TransientError
from icefloe.redacted_output import outgoing_errors, outgoing_logs
from icefloe.redaction.hidden import redacted_foreign

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext

_Result = TypeVar("_Result")
_NO_PYTHON: Final = ("Cannot run program", "PYTHON_VERSION_MISMATCH")
"""What Spark says of a worker without the Python that ``spark.pyspark.python`` names, or with another minor version."""
_KILLED: Final = (
    "Python worker exited unexpectedly",
    "code 137",
    "status: 137",
    "exceeding memory limits",
    "OOMKilled",
)
"""What Spark, Kubernetes and YARN say of a process that was killed."""


class SparkEngine:
    """Runs tasks on the executors of a Spark application.

    Args:
        checks_libraries: False if the workers are the driver's own interpreter.
    """

    def __init__(self, spark: "SparkContext", *, checks_libraries: bool = True) -> None:
        self._spark = spark
        self._checks_libraries = checks_libraries

    def map(self, function: Callable[[int], _Result], numbers: Sequence[int]) -> list[_Result]:
        """The results in the order of ``numbers``, in which Spark starts its tasks.

        The function returns errors that must come back as they are (`TaskOutcome`): raised, they would be text. One
        that another machine may not meet is raised all the same while Spark has tries left, perhaps elsewhere.
        """
        from py4j.protocol import Py4JJavaError

        if not numbers:
            return []
        call = CheckedTask(function) if self._checks_libraries else function
        most_tries = self._most_tries()

        def apply(partition: Iterable[int]) -> Iterator[_Result | WorkerLibraries]:
            # The executor's log and the driver get an error from here with all its causes.
            with outgoing_logs(), outgoing_errors():
                for number in partition:
                    yield final_result(call(number), most_tries=most_tries)

        try:
            # A partition per number: Spark repeats whole partitions, and no number that is done should be done again.
            answers = self._spark.parallelize(numbers, len(numbers)).mapPartitions(apply).collect()
        except Py4JJavaError as cause:
            raise TransientError(_sentence(_last_words(cause), len(numbers))) from cause
        return [_of_same_libraries(answer) for answer in answers]

    def _most_tries(self) -> int:
        """Tries of a task with which Spark ends the job; 1 without other machines."""
        # Workers import this module before their libraries are known to be the driver's; the master needs some of them.
        from icefloe.engines.spark.master import runs_in_driver

        if runs_in_driver(self._spark.master):
            return 1
        return int(self._spark.getConf().get("spark.task.maxFailures") or "4")


def _of_same_libraries(answer: _Result | WorkerLibraries) -> _Result:
    if isinstance(answer, WorkerLibraries):
        raise answer.as_error()
    return answer


def _sentence(said: str, tasks: int) -> str:
    if any(sign in said for sign in _NO_PYTHON):
        python = ".".join(platform.python_version_tuple()[:2])
        return f"the Spark workers do not start Python {python}: set spark.pyspark.python to one that is there; {said}"
    memory = (
        "; a worker that ends without a word was most often killed because memory ran out (exit code 137): raise "
        "spark.executor.memoryOverhead to cores x (shuffle.memory_bytes + 512 MiB), or lower shuffle.memory_bytes"
    )
    return f"Spark gave up on {tasks} tasks: {said}{memory if any(sign in said for sign in _KILLED) else ''}"


def _last_words(error: "Py4JJavaError") -> str:
    """The first line of Spark's message and the Python error at its end."""
    lines = [line.strip() for line in str(error.java_exception.getMessage()).splitlines() if line.strip()]
    raised = [line for line in lines if not line.startswith(("at ", "File ", "Traceback", "Driver stacktrace", "... "))]
    said = " ... ".join(dict.fromkeys([lines[0], raised[-1]])) if raised else str(error.java_exception)
    return redacted_foreign(said)
