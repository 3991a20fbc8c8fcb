"""The Spark engine: one Spark task per number; the function travels with its secrets inside the closure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from icefloe.errors import TransientError
from icefloe.redacted_output import outgoing_errors
from icefloe.redaction.hidden import redacted_foreign

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext

_Result = TypeVar("_Result")
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
        spark: its context.
    """

    def __init__(self, spark: "SparkContext") -> None:
        self._spark = spark

    def map(self, function: Callable[[int], _Result], numbers: Sequence[int]) -> list[_Result]:
        """The results, in the order of ``numbers``; Spark starts its tasks in that order.

        Args:
            function: returns an error that has to come back as it is; see `TaskOutcome`. Raised in a worker, it would
                come back as text, after Spark had tried again.
            numbers: to call it with.

        Raises:
            TransientError: Spark gave up: executors were lost, or a task failed as often as it may.
        """
        from py4j.protocol import Py4JJavaError

        if not numbers:
            return []

        def apply(partition: Iterable[int]) -> Iterator[_Result]:
            # The executor's log and the driver get an error from here with all its causes.
            with outgoing_errors():
                for number in partition:
                    yield function(number)

        try:
            # A partition per number: Spark repeats whole partitions, and no number that is done should be done again.
            return self._spark.parallelize(numbers, len(numbers)).mapPartitions(apply).collect()
        except Py4JJavaError as cause:
            said = _last_words(cause)
            raise TransientError(f"Spark gave up on {len(numbers)} tasks: {said}{_about_memory(said)}") from cause


def _about_memory(said: str) -> str:
    """The way out for a worker that was killed, which cannot say why: most often by the kernel or the cluster (137)."""
    if not any(sign in said for sign in _KILLED):
        return ""
    return (
        "; a worker that ends without a word was most often killed because memory ran out (exit code 137): raise "
        "spark.executor.memoryOverhead to cores x (shuffle.memory_bytes + 512 MiB), or lower shuffle.memory_bytes"
    )


def _last_words(error: "Py4JJavaError") -> str:
    """The first line of Spark's message and the Python error at its end, without the two stack traces between."""
    lines = [line.strip() for line in str(error.java_exception.getMessage()).splitlines() if line.strip()]
    raised = [line for line in lines if not line.startswith(("at ", "File ", "Traceback", "Driver stacktrace"))]
    said = " ... ".join(dict.fromkeys([lines[0], raised[-1]])) if raised else str(error.java_exception)
    return redacted_foreign(said)
