"""Mutations of Spark jobs: executors that tasks avoid, and secrets that jobs print."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["SPARK_JOBS"]

_EXECUTORS: Final = ("tests/engines/spark/test_executors.py",)

SPARK_JOBS: Final = (
    Mutation(
        name="tasks that failed on one executor are not handed to others",
        path="engines/spark/engine.py",
        before="if not failed or not self._exclusion.leaves_others(avoided):",
        after="if True:",
        suite=_EXECUTORS,
    ),
    Mutation(
        name="an executor that tasks avoid runs them again",
        path="engines/spark/placed_results.py",
        before="        if self in avoided and context is not None",
        after="        if False and context is not None",
        suite=_EXECUTORS,
    ),
    Mutation(
        name="Spark gives a refused task to the same executor again",
        path="engines/spark/executors.py",
        before='most = "1" if is_on else _NEVER',
        after="most = _NEVER",
        suite=_EXECUTORS,
    ),
    Mutation(
        name="no sentence names the host of an executor",
        path="engines/spark/engine.py",
        before="placed.named() if is_cluster else placed",
        after="placed",
        suite=_EXECUTORS,
    ),
    Mutation(
        name="a worker with other libraries begins its task",
        path="engines/spark/worker_libraries.py",
        before="        if found != self._driver:\n",
        after="        if False:\n",
        suite=("tests/engines/spark/test_worker_libraries.py",),
    ),
    Mutation(
        name="lines of a job pass the filter of logs by",
        path="orchestration/tasks/spark_phase_operator.py",
        before="self._hook._log = RedactedLog(self._hook.log)",
        after="self._hook._log = self._hook.log",
        suite=("tests/orchestration/tasks/test_redacted_log.py",),
    ),
    Mutation(
        name="warnings of a Python worker pass the filter of logs by",
        path="redacted_output.py",
        before=" or tuple(logging.getLogger().handlers) or last",
        after=" or tuple(logging.getLogger().handlers)",
        suite=("tests/test_redacted_output.py",),
    ),
    Mutation(
        name="a large closure is readable on disk",
        path="engines/spark/rpc.py",
        before="    ours = dict(_ON_DISK)\n",
        after="    ours: dict[str, str] = {}\n",
        suite=("tests/engines/spark/test_rpc.py",),
    ),
)
