"""Mutations of the ways out: each switches off what keeps an operator's command and a run from undoing each other."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["OPERATORS"]

_STOPPED: Final = ("tests/faults/test_stopped_operators.py",)
_KILLED: Final = (
    "tests/batch/operations/test_cursor_change.py::test_a_move_that_is_killed_at_any_write_is_completed_by_the_next_command",
)
_HALF: Final = ("tests/batch/operations/test_half_delivered.py",)

OPERATORS: Final = (
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
        name="a batch of which a sink holds a part is abandoned",
        path="batch/operations/half_delivered.py",
        before="    if _is_half_delivered(reference):\n",
        after="    if False:\n",
        suite=_HALF,
    ),
    Mutation(
        name="a reset that gives a batch up leaves the cursor where it was until its own batch",
        path="batch/operations/half_delivered.py",
        before="return replace(end, cursor=Cursor.beginning(opened.batch_number, pipeline_since=since))",
        after="return end",
        suite=_HALF,
    ),
    Mutation(
        name="an open batch whose history is gone does not name the way out",
        path="batch/plan/write_plan.py",
        before="        if not batch.is_resumed:\n            raise\n        number",
        after="        if True:\n            raise\n        number",
        suite=("tests/batch/plan/test_open_and_plan.py",),
    ),
)
