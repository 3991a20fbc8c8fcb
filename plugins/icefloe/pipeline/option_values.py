"""Options of a pipeline that other rooms decide by: their values, written once."""

from typing import Literal, TypeAlias

__all__ = ["ChangesOption", "CommitGroupsOption", "RollbackOption", "SummaryMismatchOption"]

ChangesOption: TypeAlias = Literal["each", "net"]
"""``each``: the changes of every step. ``net``: the last state of each identity against its first."""

CommitGroupsOption: TypeAlias = Literal["fuse", "split"]
"""``fuse``: the snapshots of one commit are one step. ``split``: each snapshot is a step."""

RollbackOption: TypeAlias = Literal["compensate", "fail"]
"""If a branch left the cursor's snapshot behind, deliver the difference or stop."""

SummaryMismatchOption: TypeAlias = Literal["fail", "warn"]
"""If a batch and the snapshots' summaries disagree, stop or warn."""
