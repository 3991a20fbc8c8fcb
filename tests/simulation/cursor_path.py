"""The way of a cursor along the history of a table that is rolled back now and then."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from simulation.table import TableStates

__all__ = ["MOVES", "UNDELIVERED", "flat_commit", "is_path"]

MOVES: Final = ("cursor_set", "reset")
"""Ends of batches by which an operator moves the cursor to where it is to be."""
UNDELIVERED: Final = (*MOVES, "abandoned")
"""Ends of batches whose changes do not count."""


def flat_commit(record: Mapping[str, Any]) -> dict[str, Any]:
    """A commit record with the facts of its ending beside the others; its route is the outcome if nothing arrived."""
    outcome, cursor = record["ending"]["outcome"], record["ending"]["cursor"]
    return {
        **record,
        "batch_number": cursor["batch_number"],
        "up_to_snapshot_id": cursor["snapshot_id"],
        "is_beginning": cursor.get("is_beginning", False),
        "route": record["route"] if outcome == "delivered" else outcome,
    }


def is_path(states: TableStates, heads: Sequence[int], commits: Sequence[Mapping[str, Any]]) -> bool:
    """True if the cursor of some batches has only gone on, and back only as the table was rolled back.

    Args:
        states: of the table.
        heads: commits to which the table has moved, in order.
        commits: commit records of batches, in order.
    """
    cursor, position = None, 0
    for commit in commits:
        before, cursor = cursor, None if commit["up_to_snapshot_id"] is None else int(commit["up_to_snapshot_id"])
        if commit["route"] in MOVES or commit.get("is_beginning"):
            # Anywhere from now on. A reset may give up a batch that is half delivered.
            position = 0
            cursor = cursor if commit["route"] == "cursor_set" else None
        elif cursor is not None:
            found = (i for i in range(position, len(heads)) if _leads(states, heads[i], before, cursor))
            position = next(found, len(heads))
            if position == len(heads):
                return False
    return True


def _leads(states: TableStates, head: int, before: int | None, after: int) -> bool:
    """True if a table with this head leads a cursor from one commit to another: over their fork, or straight on."""
    lineage, behind = states.lineage(head), states.lineage(before)
    fork = next((each for each in behind if each in lineage), None)
    return after in lineage and (fork is None or fork in states.lineage(after))
