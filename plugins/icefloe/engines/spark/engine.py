"""The Spark engine: one Spark task per number; secrets travel inside the closure."""

import logging
import platform
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from icefloe.engines.spark.workers import (
    CheckedTask,
    Executor,
    PlacedResult,
    WorkerLibraries,
)
from icefloe.errors import TransientError
from icefloe.redacted_output import outgoing_errors, outgoing_logs
from icefloe.redaction.hidden import redacted_foreign

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")
_MOST_ROUNDS: Final = 4
"""Number of times that a phase's tasks are handed out, as often as Spark by itself tries a task that raises."""
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
        # Workers import this module before their libraries are known to be the driver's; pipelines need some of them.
        from icefloe.engines.spark.spark_conf import Exclusion

        self._spark = spark
        self._checks_libraries = checks_libraries
        self._exclusion = Exclusion(spark)

    def map(self, function: Callable[[int], _Result], numbers: Sequence[int]) -> list[_Result]:
        """The results in the order of ``numbers``, in which Spark starts its tasks.

        Tasks that failed on one executor by an error of its machine go to others, if there are any. The function
        returns errors that must come back as they are (`TaskOutcome`): raised, they would be text, after retries of
        Spark.
        """
        if not numbers:
            return []
        found = self._results(function, numbers)
        avoided: set[Executor] = set()
        for _ in range(1, _MOST_ROUNDS):
            failed = {number: each for number, each in found.items() if each.may_do_better_elsewhere}
            avoided |= {each.executor for each in failed.values()}
            if not failed or not self._exclusion.leaves_others(avoided):
                break
            _warn_of(failed)
            try:
                again = self._results(function, list(failed), avoided)
            except TransientError as error:
                # The first errors say more, by class and facts.
                logger.warning("the tasks could not run on other hosts: %s", error.sentence)
                break
            found |= {number: each.after(found[number]) for number, each in again.items()}
        return [found[number].result for number in numbers]

    def _results(
        self, function: Callable[[int], _Result], numbers: Sequence[int], avoided: Collection[Executor] = ()
    ) -> "dict[int, PlacedResult[_Result]]":
        from py4j.protocol import Py4JJavaError

        is_cluster, most_tries, kept_away = self._exclusion.is_cluster, self._exclusion.most_tries, frozenset(avoided)
        self._exclusion.set(is_on=bool(avoided))
        call = CheckedTask(function) if self._checks_libraries else function

        def apply(partition: Iterable[int]) -> Iterator[tuple[int, PlacedResult[_Result | WorkerLibraries]]]:
            # The executor's log and the driver get an error from here with all its causes.
            with outgoing_logs(), outgoing_errors():
                here = Executor.here()
                here.refuse_if_in(kept_away, most_tries=most_tries)
                for number in partition:
                    placed = PlacedResult(here, call(number))
                    yield number, placed.named() if is_cluster else placed

        try:
            # A partition per number: Spark repeats whole partitions, and no number that is done should be done again.
            answers = dict(self._spark.parallelize(numbers, len(numbers)).mapPartitions(apply).collect())
        except Py4JJavaError as cause:
            raise TransientError(_sentence(_last_words(cause), len(numbers))) from cause
        return {number: _of_same_libraries(answer) for number, answer in answers.items()}


def _of_same_libraries(answer: PlacedResult[_Result | WorkerLibraries]) -> PlacedResult[_Result]:
    if isinstance(answer.result, WorkerLibraries):
        raise answer.result.as_error()
    return PlacedResult(answer.executor, answer.result)


def _warn_of(failed: Mapping[int, PlacedResult[_Result]]) -> None:
    hosts = ", ".join(sorted({each.executor.host for each in failed.values()}))
    first = next(each.error for each in failed.values())
    logger.warning("%d tasks failed on %s and are handed to other executors: %s", len(failed), hosts, first)


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
