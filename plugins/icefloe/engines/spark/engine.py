"""The Spark engine: one Spark task per number; the function travels with its secrets inside the closure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from icefloe.errors import TransientError
from icefloe.outgoing import outgoing_errors
from icefloe.redaction.hidden import redacted_foreign

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext

_Result = TypeVar("_Result")


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
            function: returns an error that has to come back as it is; see `Outcome`. Raised in a worker, it would come
                back as text, after Spark had tried again.
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
            raise TransientError(f"Spark gave up on {len(numbers)} tasks: {_last_words(cause)}") from cause


def _last_words(error: "Py4JJavaError") -> str:
    """The first line of Spark's message and the Python error at its end, without the two stack traces between."""
    lines = [line.strip() for line in str(error.java_exception.getMessage()).splitlines() if line.strip()]
    raised = [line for line in lines if not line.startswith(("at ", "File ", "Traceback", "Driver stacktrace"))]
    said = " ... ".join(dict.fromkeys([lines[0], raised[-1]])) if raised else str(error.java_exception)
    return redacted_foreign(said)
