"""Mutations of a batch: from the plan to its end, and what operators do to it."""

from typing import Final

from mutations.mutation import Kind, Mutation

__all__ = ["BATCHES"]

_SCHEDULES: Final = ("tests/simulation/test_simulation.py::test_no_schedule_breaks_a_promise",)
_CLI_COORDINATION: Final = ("tests/cli/test_coordination.py",)

BATCHES: Final = (
    Mutation(
        name="in some schedule cleanup deletes the batch that is open",
        function="_is_up_to", kind=Kind.FIRST, suite=_SCHEDULES,
    ),
    Mutation(
        name="a plan is run whatever its checksum",
        function="load_plan", kind=Kind.NEVER, suite=("tests/batch/plan/test_planned_again.py",),
    ),
    Mutation(
        name="the error of a task holds what the task had in memory",
        function="_clear_frames", kind=Kind.WITHOUT, place=3, suite=("tests/batch/context/test_task_attempt.py",),
    ),
    Mutation(
        name="a batch goes on at another sink than its first parts went to",
        function="_refuse_other_destination", kind=Kind.NEVER,
        suite=("tests/batch/deliver/test_other_destinations.py",),
    ),
    Mutation(
        name="in some schedule a late run ends with the error that it stumbled over",
        function="ends_well_if_finished", kind=Kind.ALWAYS, suite=_SCHEDULES,
    ),
    Mutation(
        name="in some schedule a move of the cursor leaves it where it was",
        function="EmptyEnd.of_open", kind=Kind.SECOND, suite=_SCHEDULES,
    ),
    Mutation(
        name="a reset back into a folder leaves numbers without a manifest",
        function="end_here", kind=Kind.NEVER, suite=("tests/batch/upkeep/test_shown_ends.py",),
    ),
    Mutation(
        name="in some schedule a zombie leaves what it wrote",
        function="taken_back_if_over", kind=Kind.NEVER, suite=_SCHEDULES,
    ),
    Mutation(
        name="a node that is busy for ever is never lost",
        function="spare_busy_nodes", kind=Kind.NEVER, place=4,
        suite=("tests/node/test_lost_nodes.py", "tests/node/test_node_batches.py",),
    ),
    Mutation(
        name="gathered rows that are not enough for a batch are lost",
        function="CarryOver.changed_rows", kind=Kind.WITHOUT, place=5, suite=("tests/batch/map/test_carryover.py",),
    ),
    Mutation(
        name="rows that are read again are looked for by their number among the hashed_rows",
        function="HashedRows.rows", kind=Kind.FIRST,
    ),
    Mutation(
        name="a sample that differs passes",
        function="verify_task", kind=Kind.WITHOUT, place=9, suite=("tests/batch/map/test_verified_sample.py",),
    ),
    Mutation(
        name="a sink is taken back for a load that it had a part of",
        function="claim_batch:_is_begun", kind=Kind.NEVER, suite=("tests/batch/deliver/test_taken_over.py",),
    ),
    Mutation(
        name="a filter moves to another column of its name",
        function="filter_columns_of_batch", kind=Kind.WITHOUT, place=5,
        suite=("tests/batch/open/test_filter_policy.py",),
    ),
    Mutation(
        name="a branch without a snapshot is work again and again",
        function="find_work", kind=Kind.NEVER, place=7,
        suite=("tests/batch/open/test_next_batch.py",),
    ),
    Mutation(
        name="identifier columns that are not selected are not staged",
        function="delivered_columns", kind=Kind.NEVER, place=3, suite=("tests/batch/deliver/test_selected_columns.py",),
    ),
    Mutation(
        name="a pipeline without its table begins again",
        function="next_batch", kind=Kind.WITHOUT, place=3, suite=_CLI_COORDINATION,
    ),
    Mutation(
        name="a branch without a snapshot fails a run that only has to wait",
        function="next_range", kind=Kind.NEVER, place=11,
        suite=("tests/batch/open/test_next_batch.py",),
    ),
    Mutation(
        name="a pipeline begins again in a table that has none of its records",
        function="refuse_other_coordination", kind=Kind.NEVER, place=4, suite=_CLI_COORDINATION,
    ),
    Mutation(
        name="a batch is recorded by a manifest whose files are gone",
        function="AbandonablePipeline._record_by_manifest", kind=Kind.WITHOUT, place=2,
        suite=("tests/batch/upkeep/test_abandon.py",),
    ),
    Mutation(
        name="a load that a sink waits for is skipped by set-cursor",
        function="_refuse_pending_load", kind=Kind.NEVER,
        suite=("tests/batch/upkeep/test_cursor_change.py::test_a_load_that_a_sink_waits_for_is_not_skipped",),
    ),
    Mutation(
        name="a cursor is set in a checkpoint whose table is missing",
        function="PipelineView.of", kind=Kind.WITHOUT, place=1, suite=_CLI_COORDINATION,
    ),
    Mutation(
        name="a backfill for the sink of its pipeline is told to take it over",
        function="Redelivery.deliver", kind=Kind.WITHOUT, place=9,
        suite=("tests/batch/upkeep/test_cursor_change.py",),
    ),
    Mutation(
        name="a batch is abandoned although its changes are in another folder",
        function="refuse_unseen", kind=Kind.NEVER, suite=("tests/batch/upkeep/test_moved_changes.py",),
    ),
    Mutation(
        name="manifests of batches from before a reset cannot be written",
        function="KeptChanges._has_changes", kind=Kind.NEVER, place=5, suite=("tests/batch/upkeep/test_shown_ends.py",),
    ),
    Mutation(
        name="a command fails for good on what it saw before others changed the pipeline",
        function="errors_count_if_unchanged", kind=Kind.ALWAYS, suite=("tests/cli/test_changing_command.py",),
    ),
    Mutation(
        name="rows have the schema of the table as it is now",
        function="make_plan", kind=Kind.NONE, place=7,
    ),
    Mutation(
        name="an abandon of a backfill that was killed is not completed by a run",
        function="_open_requested", kind=Kind.NEVER, place=3,
        suite=("tests/batch/upkeep/test_abandoned_backfills.py",),
    ),
    Mutation(
        name="a release is blamed for a plan that names another folder of changes",
        function="refuse_other_plan", kind=Kind.NEVER, place=1, suite=("tests/batch/plan/test_planned_again.py",),
    ),
    Mutation(
        name="in some schedule a run takes the move of an operator for a batch of its own",
        function="write_plan", kind=Kind.NEVER, place=2, suite=_SCHEDULES,
    ),
    Mutation(
        name="copies of a row beyond memory are counted once",
        function="RangeRows._consolidated", kind=Kind.WITHOUT, place=4,
        suite=("tests/batch/reduce/test_small_memory.py",),
    ),
    Mutation(
        name="in some schedule damaged map outputs are not voided",
        function="void_damaged", kind=Kind.WITHOUT, place=2, suite=_SCHEDULES,
    ),
    Mutation(
        name="a moves file that is damaged stays",
        function="write_moves", kind=Kind.NEVER, place=3, suite=("tests/batch/reduce/test_write_moves.py",),
    ),
    Mutation(
        name="rows of any size are taken",
        function="RowLimit.check", kind=Kind.ALWAYS, suite=("tests/faults/test_large_row.py",),
    ),
    Mutation(
        name="all rows but some are just those",
        function="RowSet.among", kind=Kind.NEVER, place=1,
    ),
    Mutation(
        name="rows that a rollback brings back stay deleted in later steps",
        function="TermEffects._gone", kind=Kind.NEVER, place=2, suite=("tests/batch/rows/test_term_effects.py",),
    ),
    Mutation(
        name="credentials that expire in the middle of a phase are not renewed",
        function="RenewedFiles.__exit__", kind=Kind.ALWAYS, place=1, suite=("tests/batch/test_renewed_files.py",),
    ),
    Mutation(
        name="a commit that is repeated ends the trouble of a later batch",
        function="PipelineStatus.trouble_after", kind=Kind.NEVER, place=4, suite=("tests/batch/status",),
    ),
    Mutation(
        name="a deployment writes its trouble into the status of another one",
        function="publish_trouble", kind=Kind.WITHOUT, place=1, suite=("tests/batch/status/test_publish_status.py",),
    ),
    Mutation(
        name="a sweep takes the files of an open batch",
        function="BatchStates.state", kind=Kind.NEVER, place=4, suite=("tests/batch/upkeep/test_survey.py",),
    ),
    Mutation(
        name="a sweep compares the names of tables alone",
        function="_named_url", kind=Kind.NEVER, place=10,
        suite=("tests/cli/test_coordination.py::test_a_sweep_of_another_table_of_that_name_leaves_everything_alone",),
    ),
    Mutation(
        name="a sweep does not ask again whether a batch was opened since",
        function="Leftover.delete", kind=Kind.NEVER, suite=("tests/batch/upkeep/test_survey.py",),
    ),
    Mutation(
        name="a sink that another checkpoint claims is swept",
        function="_is_claimed_by", kind=Kind.ALWAYS, place=2, suite=("tests/batch/upkeep/test_sink_files.py",),
    ),
    Mutation(
        name="verify reads columns of another schema as its own",
        function="SchemaRunReplay._require_schema", kind=Kind.NEVER,
        suite=("tests/batch/verify/test_verify_batches.py",),
    ),
    Mutation(
        name="verify replays a pipeline that was edited since",
        function="verify_batches", kind=Kind.NEVER, place=1, suite=("tests/batch/verify/test_verify_batches.py",),
    ),
    Mutation(
        name="a sink is read back that has never seen a batch",
        function="verify_delivery", kind=Kind.NEVER, place=4, suite=("tests/batch/verify/test_verify_delivery.py",),
    ),
    Mutation(
        name="a batch may be opened over an open one",
        function="Checkpoint.create_offset", kind=Kind.WITHOUT, place=5, suite=("tests/checkpoint/test_log.py",),
    ),
    Mutation(
        name="in some schedule a second owner takes a checkpoint unasked",
        function="Ownership.claim_for", kind=Kind.NEVER, place=3, suite=_SCHEDULES,
    ),
    Mutation(
        name="in some schedule somebody writes to the checkpoint of another owner",
        function="Ownership.refuse_other", kind=Kind.NEVER, suite=_SCHEDULES,
    ),
    Mutation(
        name="a batch may follow another end than that of the batch before",
        function="refuse_another_beginning", kind=Kind.NEVER, suite=("tests/checkpoint/test_log.py",),
    ),
)  # fmt: skip
