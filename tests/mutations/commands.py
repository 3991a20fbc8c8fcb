"""Mutations of engines, Airflow, commands and pipeline files."""

from typing import Final

from mutations.mutation import Kind, Mutation

__all__ = ["COMMANDS"]


COMMANDS: Final = (
    Mutation(name="the rest for a reader that went away is written as the process ends", function="_has_lost_a_reader",
             kind=Kind.WITHOUT, place=3, suite=("tests/cli/test_command_line.py",)),
    Mutation(name="plan fails while a pipeline waits for its table", function="awaited", kind=Kind.SECOND,
             suite=("tests/cli/test_plan.py",)),
    Mutation(name="trace prints numbers that JSON does not have", function="trace:_plain", kind=Kind.NEVER, place=4,
             suite=("tests/cli/test_trace.py",)),
    Mutation(name="a backfill that was killed before its cleanup leaves its files", function="run_batch:_run",
             kind=Kind.WITHOUT, place=16, suite=("tests/engines/test_run_batch.py",)),
    Mutation(name="tasks that failed on one executor are not handed to others", function="SparkEngine.map",
             kind=Kind.ALWAYS, place=2, suite=("tests/engines/spark/test_executors.py",)),
    Mutation(name="an executor that tasks avoid runs them again", function="Executor.refuse_if_in", kind=Kind.NEVER,
             place=1, suite=("tests/engines/spark/test_executors.py",)),
    Mutation(name="a worker with other libraries begins its task", function="CheckedTask.__call__", kind=Kind.NEVER,
             suite=("tests/engines/spark/test_executors.py",)),
    Mutation(name="an extra that is no object ends a task with an internal error", function="find_connection",
             kind=Kind.NEVER, place=4, suite=("tests/orchestration/connections/test_airflow_connections.py",)),
    Mutation(name="a role of a connection is dropped without a word", function="object_store_options", kind=Kind.NEVER,
             suite=("tests/orchestration/connections/test_object_store_options.py",)),
    Mutation(name="a commit that is cleared starts the consumers again", function="has_event", kind=Kind.ALWAYS,
             suite=("tests/dags/test_icefloe_pipelines.py",)),
    Mutation(name="a user without a right to any run gets an empty overview", function="_overview", kind=Kind.NEVER,
             suite=("tests/dags/test_page_rights.py",)),
    Mutation(name="a table that is missing for good is waited for", function="AbsencePatience.note", kind=Kind.NEVER,
             place=3, suite=("tests/orchestration/tasks/test_absent_table.py",)),
    Mutation(name="tasks of other routes work on a batch", function="skip_other_route", kind=Kind.NEVER,
             suite=("tests/orchestration/tasks/test_spark_phase_operator.py",)),
    Mutation(name="a day without an answer counts as a quiet day",
             function="PipelineSnapshotTrigger._event_at_deadline", kind=Kind.NEVER,
             suite=("tests/orchestration/tasks/test_snapshot_trigger.py",)),
    Mutation(name="a task goes on without the result of plan", function="given_by_plan", kind=Kind.NEVER,
             suite=(
             "tests/orchestration/dags/test_dag_factory.py::test_a_route_whose_plan_was_marked_as_success_says_what_to_clear",)),
    Mutation(name="threads that wait for a dead place grow without end", function="answer_within", place=1,
             kind=Kind.NEVER, suite=("tests/test_patience.py",)),
    Mutation(name="a value of the environment is shown in any key", function="hide_values", kind=Kind.WITHOUT, place=6,
             suite=("tests/redaction/test_environment_values.py",)),
    Mutation(name="a pipeline file may hold what errors hide", function="looks_secret", kind=Kind.NEVER, place=2,
             suite=("tests/pipeline/test_secret.py",)),
    Mutation(name="calls of a thread that died count as made", function="_wait_for", kind=Kind.NEVER, place=2,
             suite=("tests/test_threads.py",)),
    Mutation(name="a duration may be longer than any calendar", function="parse_seconds", kind=Kind.NEVER,
             suite=("tests/test_units.py",)),
)  # fmt: skip
