"""Mutations of engines, Airflow, commands and pipeline files."""

from typing import Final

from mutations.mutation import Kind, Mutation

__all__ = ["COMMANDS"]


COMMANDS: Final = (
    Mutation(name="a backfill that was killed before its cleanup leaves its files", function="run_batch:_run",
             kind=Kind.WITHOUT, place=12, suite=("tests/engines/test_run_batch.py",)),
    Mutation(name="an error that another machine may not meet is not tried there", function="final_result",
             kind=Kind.NEVER, place=5, suite=("tests/engines/spark/test_executors.py",)),
    Mutation(name="a worker with other libraries begins its task", function="CheckedTask.__call__", kind=Kind.NEVER,
             suite=("tests/engines/spark/test_executors.py",)),
    Mutation(name="a table that is missing for good is waited for", function="absent_since", kind=Kind.NEVER,
             place=3, suite=("tests/orchestration/tasks/test_absent_table.py",)),
    Mutation(name="tasks of other routes work on a batch", function="skip_other_route", kind=Kind.NEVER,
             suite=("tests/orchestration/tasks/test_spark_phase_operator.py",)),
    Mutation(name="a day without an answer counts as a quiet day",
             function="PipelineSnapshotTrigger._event_at_deadline", kind=Kind.NEVER,
             suite=("tests/orchestration/tasks/test_snapshot_trigger.py",)),
    Mutation(name="a value of the environment is shown in any key", function="hide_values", kind=Kind.WITHOUT, place=6,
             suite=("tests/redaction/test_environment_values.py",)),
    Mutation(name="a pipeline file may hold what errors hide", function="looks_secret", kind=Kind.NEVER, place=2,
             suite=("tests/pipeline/test_secret.py",)),
    Mutation(name="calls of a thread that died count as made", function="_wait_for", kind=Kind.NEVER, place=2,
             suite=("tests/test_patience.py",)),
)  # fmt: skip
