"""The executors of a job, and which ones a task avoids because tasks failed there.

icefloe's tasks return their errors, so for Spark they succeeded. A bad machine, whose tasks fail in milliseconds, would
take nearly all tasks of a phase. Such tasks are handed out again, and refused there if they come back: Spark then keeps
the stage away.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from icefloe.engines.spark.master import SparkMaster, runs_in_driver
from icefloe.engines.spark.workers import Executor

if TYPE_CHECKING:
    from pyspark import SparkContext

_PREFIX: Final = "spark.excludeOnFailure."
_ENABLED: Final = f"{_PREFIX}taskAndStage.enabled"
_TRIES: Final = "spark.task.maxFailures"
_MOST_TRIES: Final = "4"
_OURS: Final = "spark.icefloe.excludesExecutors"
_LIMITS: Final = ("task.maxTaskAttemptsPerExecutor", "stage.maxFailedTasksPerExecutor")
_NODE_LIMITS: Final = ("task.maxTaskAttemptsPerNode", "stage.maxFailedExecutorsPerNode")
_NEVER: Final = str(10**6)


class Exclusion:
    """Spark's exclusion of executors from a stage, which is off until tasks avoid some.

    Spark's own limits fit tasks that raise. With no other executor, a task would wait two minutes after one killed
    worker, and then end the job. Spark reads the limits at the beginning of each stage.
    """

    def __init__(self, spark: "SparkContext") -> None:
        self._spark = spark
        self.is_cluster = not runs_in_driver(spark.master)

    @property
    def most_tries(self) -> int:
        """Failures of one task with which Spark ends the job."""
        return int(self._live.get(_TRIES, _MOST_TRIES)) if self.is_cluster else 1

    def leaves_others(self, avoided: Collection[Executor]) -> bool:
        """True if the job has other executors."""
        if not self.is_cluster:
            return False
        # The driver is one of them.
        return len(self._of_jvm.statusTracker().getExecutorInfos()) - 1 > len(avoided)

    def set(self, *, is_on: bool) -> None:
        """Lets Spark keep the next stage from executors that refuse one of its tasks, or not."""
        if self.is_cluster and self._live.get(_OURS, "false") == "true":
            most = "1" if is_on else _NEVER
            limits = {**dict.fromkeys(_LIMITS, most), **dict.fromkeys(_NODE_LIMITS, _NEVER)}
            for key, value in limits.items():
                self._live.set(_PREFIX + key, value)

    @property
    def _of_jvm(self) -> Any:
        return self._spark._jsc.sc()  # noqa: SLF001 - PySpark shows neither executors nor the live configuration

    @property
    def _live(self) -> Any:
        # A copy, as PySpark's `getConf` returns it, would change nothing.
        return self._of_jvm.conf()


def exclusion_settings(chosen: Mapping[str, str], master: SparkMaster) -> dict[str, str]:
    """The settings for keeping a stage from an executor; none if somebody chose such settings."""
    # With fewer tries Spark refuses to begin: it could not try another machine.
    has_tries = chosen.get(_TRIES, _MOST_TRIES).strip() not in ("1", "2")
    is_chosen = any(key.startswith((_PREFIX, "spark.blacklist.")) for key in chosen)
    return {} if runs_in_driver(master.url) or is_chosen or not has_tries else {_ENABLED: "true", _OURS: "true"}
