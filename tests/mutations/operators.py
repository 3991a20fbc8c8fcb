"""Mutations of the ways out: each switches off what keeps an operator's command and a run from undoing each other."""

from typing import Final

from mutations.mutation import Edit, Mutation

__all__ = ["OPERATORS"]

_STOPPED: Final = ("tests/faults/test_stopped_operators.py",)
_KILLED: Final = (
    "tests/batch/operations/test_cursor_change.py::test_a_move_that_is_killed_at_any_write_is_completed_by_the_next_command",
)
_HALF: Final = ("tests/batch/operations/test_half_delivered.py",)
_SET_BACK: Final = (
    "tests/batch/operations/test_cursor_change.py::test_rows_of_several_ranges_that_a_sink_missed_come_by_one_cursor_set_back",
)
_MOVED: Final = ("tests/batch/operations/test_moved_changes.py",)

_STATUS: Final = ("tests/batch/status",)
_EVENTS: Final = ("tests/dags/test_icefloe_pipelines.py",)

OPERATORS: Final = (
    Mutation(
        name="tasks of other routes work on a batch",
        path="orchestration/tasks/calls.py",
        before="if task not in batch_tasks(route, delivers=True):",
        after="if False:",
        suite=("tests/orchestration/tasks/test_spark_phase_operator.py",),
    ),
    Mutation(
        name="a record that the shuffle left counts for an insert-only batch",
        path="shuffle/map_output_log.py",
        before="if self._writes_to_sink and record.part is None:",
        after="if False:",
        suite=("tests/batch/run/test_phases.py",),
    ),
    Mutation(
        name="a commit that is repeated ends the trouble of a later batch",
        path="batch/status/pipeline_status.py",
        before="batch_number < self._troubled_batch(self.trouble)",
        after="False",
        suite=_STATUS,
    ),
    Mutation(
        name="plan fails on the way of the batch before",
        path="batch/status/pipeline_status.py",
        before="return last + 1 if trouble.phase in _BEFORE_A_BATCH else last",
        after="return last",
        suite=_STATUS,
    ),
    Mutation(
        name="a commit fails on the way of the next batch",
        path="batch/status/pipeline_status.py",
        before="return last + 1 if trouble.phase in _BEFORE_A_BATCH else last",
        after="return last + 1",
        suite=_STATUS,
    ),
    Mutation(
        name="an old batch that is reported again was delivered last",
        path="batch/status/publish_status.py",
        before=" and recent[-1].batch == report.batch_number:",
        after=":",
        suite=_STATUS,
    ),
    Mutation(
        name="the batches of a status are in the order in which they were reported",
        path="batch/status/pipeline_status.py",
        before="sorted(by_number)[-_RECENT:]",
        after="list(by_number)[-_RECENT:]",
        suite=_STATUS,
    ),
    Mutation(
        name="the end of a batch takes a status back that shows a later batch",
        path="batch/status/publish_status.py",
        before=" and not before.is_past(commit.batch_number):",
        after=":",
        suite=_STATUS,
    ),
    Mutation(
        name="a commit that is cleared starts the consumers again",
        path="orchestration/dags/assets.py",
        before="if committed_before_at is None:",
        after="if True:",
        suite=_EVENTS,
    ),
    Mutation(
        name="a commit that was killed before its end never starts the consumers",
        path="orchestration/dags/assets.py",
        before="return any(wanted == {key: event.extra.get(key) for key in _BATCH} for event in events)",
        after="return events is not None",
        suite=_EVENTS,
    ),
    Mutation(
        name="a move of the cursor takes the move of another operator for its own",
        path="batch/operations/cursor_move.py",
        before="if end is None or (found.move, found.up_to_snapshot_id) != (offset.move, offset.up_to_snapshot_id):",
        after="if end is None:",
        suite=_STOPPED,
    ),
    Mutation(
        name="a command fails for good on what it saw before others changed the pipeline",
        path="batch/operations/outdated_errors.py",
        before="        if before == now:\n",
        after="        if True:\n",
        suite=("tests/cli/test_changing_command.py",),
    ),
    Mutation(
        name="an abandon whose batch a run has just made whole says that retrying cannot help",
        path="batch/ends/end_batch.py",
        before="import IcefloeError, TransientError\n",
        after="import IcefloeError\nfrom icefloe.errors import TerminalError as TransientError\n",
        suite=("tests/batch/operations/test_abandon_races.py",),
    ),
    Mutation(
        name="a batch is abandoned without making it whole at the sink",
        path="batch/ends/end_batch.py",
        before="    _make_whole(end, sink)\n    commit",
        after="    commit",
        suite=_STOPPED,
    ),
    Mutation(
        name="a move that a killed command recorded is not completed by a run",
        path="batch/ends/end_batch.py",
        before="    if end is None:\n        end = EmptyEnd.of_abandoned",
        after="    if True:\n        end = EmptyEnd.of_abandoned",
        suite=_KILLED,
    ),
    Mutation(
        name="a load that a sink waits for is skipped by set-cursor",
        path="batch/operations/cursor_change.py",
        before="    if cursor.load_part is not None:\n",
        after="    if False:\n",
        suite=("tests/batch/operations/test_cursor_change.py::test_a_load_that_a_sink_waits_for_is_not_skipped",),
    ),
    Mutation(
        name="the cursor is set while a sink has the rows of before a reset",
        path="batch/operations/cursor_change.py",
        before="    if cursor.is_beginning and _holds_rows(session, cursor):\n",
        after="    if False:\n",
        suite=_HALF,
    ),
    Mutation(
        name="a batch is abandoned although its changes are in another folder",
        path="batch/operations/half_delivered.py",
        before="    if there is not None:\n",
        after="    if False:\n",
        suite=_MOVED,
    ),
    Mutation(
        name="a batch whose delivery has begun is abandoned if it is staged elsewhere",
        path="batch/operations/half_delivered.py",
        before="    if _has_begun(reference):\n",
        after="    if False:\n",
        suite=_MOVED,
    ),
    Mutation(
        name="a reset leaves a batch open that is staged elsewhere",
        path="batch/operations/half_delivered.py",
        before="if not is_moved and not _has_begun(reference):",
        after="if not _has_begun(reference):",
        suite=_MOVED,
    ),
    Mutation(
        name="a reset leaves a batch open whose delivery has begun",
        path="batch/operations/half_delivered.py",
        before="if not is_moved and not _has_begun(reference):",
        after="if not is_moved:",
        suite=_MOVED,
    ),
    Mutation(
        name="a folder counts as the same if only the values of its variables differ",
        path="pipeline/recorded_configuration.py",
        before="and (None in (self.hash, other.hash) or self.hash == other.hash)",
        after="",
        suite=_MOVED,
    ),
    Mutation(
        name="abandon looks into the folder of another pipeline",
        path="batch/operations/abandoned_batch.py",
        before="        if opened.checkpoint_id is not None:\n            sink.refuse_other_owner",
        after="        if False:\n            sink.refuse_other_owner",
        further=(Edit(path="batch/ends/end_batch.py", before="if owner is not None:", after="if False:"),),
        suite=_MOVED,
    ),
    Mutation(
        name="an end is written into a folder that nobody has claimed",
        path="batch/ends/end_batch.py",
        before="if owner is not None:",
        after="if False:",
        suite=_MOVED,
    ),
    Mutation(
        name="a batch of which a sink holds a part is abandoned",
        path="batch/operations/half_delivered.py",
        before="    if _is_half_delivered(reference):\n",
        after="    if False:\n",
        suite=_HALF,
    ),
    Mutation(
        name="a batch goes past the snapshot that the cursor was set back from",
        path="batch/open/next_range.py",
        before=".up_to_first_of(end_at)",
        after="",
        suite=_SET_BACK,
    ),
    Mutation(
        name="only the last place that the cursor was moved away from ends a batch",
        path="batch/open/snapshots_left_by_cursor.py",
        before="            found.add(cursor.snapshot_id)\n",
        after="            found.add(cursor.snapshot_id)\n        break\n",
        suite=_SET_BACK,
    ),
    Mutation(
        name="a reset that gives a batch up leaves the cursor where it was until its own batch",
        path="batch/operations/half_delivered.py",
        before="return replace(end, cursor=Cursor.beginning(opened.batch_number, pipeline_since=since))",
        after="return end",
        suite=_HALF,
    ),
    Mutation(
        name="an abandon deletes what says that a batch before was given up half delivered",
        path="batch/commit/cleanup.py",
        before="_delete_staged(reference) if commit.outcome is BatchOutcome.DELIVERED else 0",
        after="_delete_staged(reference)",
        suite=_HALF,
    ),
    Mutation(
        name="a batch that was given up has left nothing if its staged files are gone",
        path="batch/operations/half_delivered.py",
        before="return whole is None or whole.rows > 0",
        after="return whole is not None and whole.rows > 0",
        suite=_HALF,
    ),
    Mutation(
        name="an open batch whose history is gone does not name the way out",
        path="batch/plan/write_plan.py",
        before="        if not batch.is_resumed:\n            raise\n        number",
        after="        if True:\n            raise\n        number",
        suite=("tests/batch/plan/test_planned_again.py",),
    ),
    Mutation(
        name="a release is blamed for a plan that names another folder of changes",
        path="batch/plan/recorded_plan.py",
        before="if recorded is not None and recorded.path != current:",
        after="if False:",
        suite=("tests/batch/plan/test_planned_again.py",),
    ),
    Mutation(
        name="an open batch that lost a file of the table does not name the way out",
        path="batch/run/phases.py",
        before="            running.naming_the_way_out(),\n",
        after="",
        suite=("tests/batch/run/test_phases.py",),
    ),
    Mutation(
        name="a batch that readers see cannot be ended without the files of its tasks",
        path="batch/operations/abandoned_batch.py",
        before="        except (BatchFileMissingError, UnfinishedTasksError) as error:\n",
        after="        except ZeroDivisionError as error:\n",
        suite=("tests/batch/operations/test_abandon.py",),
    ),
    Mutation(
        name="a batch is recorded by a manifest whose files are gone",
        path="batch/operations/abandoned_batch.py",
        before="        self._sink.commit(summary, ())\n",
        after="",
        suite=("tests/batch/operations/test_abandon.py",),
    ),
    Mutation(
        name="a backfill for the sink of its pipeline is told to take it over",
        path="batch/operations/delivered_again.py",
        before="            self._refuse_own_sink(sink, batch)\n",
        after="",
        suite=("tests/batch/operations/test_cursor_change.py",),
    ),
)
