"""The Spark engine: one Spark task per number, the function travels with its secrets inside the closure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["SparkEngine"]


class SparkEngine:
    """Runs tasks on the executors of a Spark application.

    Args:
        spark: its context.
    """

    def __init__(self, spark: "SparkContext") -> None:
        self._spark = spark

    def map(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        """The results, in the order of ``numbers``; Spark starts its tasks in that order."""
        if not numbers:
            return []

        def apply(partition: Iterable[int]) -> Iterator[Any]:
            return map(function, partition)

        return self._spark.parallelize(numbers, len(numbers)).mapPartitions(apply).collect()
