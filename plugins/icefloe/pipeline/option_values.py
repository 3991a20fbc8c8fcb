"""Options of a pipeline that other rooms decide by: their values, written once."""

from typing import Literal, TypeAlias

__all__ = [
    "ChangesOption",
    "CommitGroupsOption",
    "OutputOption",
    "RemovedRowsOption",
    "RollbackOption",
    "RowLineageOption",
    "SummaryMismatchOption",
]

ChangesOption: TypeAlias = Literal["each", "net"]
"""``each``: the changes of every step. ``net``: the last state of each identity against its first."""

OutputOption: TypeAlias = Literal["each", "net", "upsert", "append_only"]
"""``upsert``: net changes without the rows before updates. ``append_only``: inserts alone, of every step. Both are
computed as ``ChangesOption`` says, proven as a whole, and only then reduced."""

RemovedRowsOption: TypeAlias = Literal["fail", "skip"]
"""If a batch of ``append_only`` removes rows, stop, or leave out every step that does."""

CommitGroupsOption: TypeAlias = Literal["fuse", "split"]
"""``fuse``: the snapshots of one commit are one step. ``split``: each snapshot is a step."""

RollbackOption: TypeAlias = Literal["compensate", "fail"]
"""If a branch left the cursor's snapshot behind, deliver the difference or stop."""

RowLineageOption: TypeAlias = Literal["off", "trust"]
"""``trust``: rows of V3 tables that keep row id and sequence number are taken for copies, and not compared."""

SummaryMismatchOption: TypeAlias = Literal["fail", "warn"]
"""If a batch and the snapshots' summaries disagree, stop or warn."""
