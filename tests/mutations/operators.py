"""Mutations of the ways out: each switches off what keeps an operator's command and a run from undoing each other."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["OPERATORS"]

_STOPPED: Final = ("tests/faults/test_stopped_operators.py",)

OPERATORS: Final = (
    Mutation(
        name="a move of the cursor takes the move of another operator for its own",
        path="batch/operations/cursor_move.py",
        before="if end is None or (found.move, found.up_to_snapshot_id) != (offset.move, offset.up_to_snapshot_id):",
        after="if end is None:",
        suite=_STOPPED,
    ),
    Mutation(
        name="a batch is abandoned without making it whole at the sink",
        path="batch/commit/empty_end.py",
        before="    _make_whole(end, sink)\n    commit",
        after="    commit",
        suite=_STOPPED,
    ),
    Mutation(
        name="a move that a killed command recorded is not completed by a run",
        path="batch/commit/empty_end.py",
        before="    if move is not None:\n        return move\n",
        after="",
        suite=_STOPPED,
    ),
)
