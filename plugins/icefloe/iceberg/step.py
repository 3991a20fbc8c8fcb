"""A step of a batch: one commit, one move of a branch, or the initial load."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from pydantic import ConfigDict

from icefloe.documents import STRICT, SnapshotId
from icefloe.iceberg.load_part import LoadPart

__all__ = ["Step", "StepKind", "refuse_gaps_in_ordinals"]


class StepKind(StrEnum):
    """Ways in which the rows of a step are found."""

    COMMIT = "commit"
    """Rows that are added and deleted by the manifests that ``snapshot_ids`` added."""

    STATES = "states"
    """The difference of two states: rows live at ``end_snapshot_id`` less rows live at ``start_snapshot_id``."""

    INITIAL = "initial"
    """Every live row at ``end_snapshot_id``, as an insert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change of the table's state that readers saw as one; part of the documents of a batch.

    Attributes:
        change_ordinal: counts the steps of a batch from 0.
        kind: the way in which the step's rows are found.
        start_snapshot_id: the state before; None if the table was empty, if the state before has expired
            (a step of kind COMMIT does not need it), and for INITIAL.
        end_snapshot_id: the state after.
        snapshot_ids: for a COMMIT the snapshots that it consists of, oldest first and without ``replace``; otherwise
            the end.
        commit_snapshot_id: delivered as ``_commit_snapshot_id``.
        commit_timestamp_us: delivered as ``_commit_timestamp``, microseconds since the epoch.
        load_part: the files of this batch, for an INITIAL step whose load takes several batches; None: all files.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    change_ordinal: int
    kind: StepKind
    start_snapshot_id: SnapshotId | None
    end_snapshot_id: SnapshotId
    snapshot_ids: tuple[SnapshotId, ...]
    commit_snapshot_id: SnapshotId
    commit_timestamp_us: int
    load_part: LoadPart | None = None

    @classmethod
    def initial(cls, snapshot_id: int, *, timestamp_ms: int) -> "Step":
        """Every live row at a snapshot, as the only step of a batch."""
        return cls(
            change_ordinal=0,
            kind=StepKind.INITIAL,
            start_snapshot_id=None,
            end_snapshot_id=snapshot_id,
            snapshot_ids=(snapshot_id,),
            commit_snapshot_id=snapshot_id,
            commit_timestamp_us=1000 * timestamp_ms,
        )

    def __post_init__(self) -> None:
        """Refuse a step that no planner makes."""
        if self.change_ordinal < 0:
            raise ValueError(f"change_ordinal counts from 0, found {self.change_ordinal}")
        if not self.snapshot_ids:
            raise ValueError(f"the step that ends at snapshot {self.end_snapshot_id} names no snapshot")
        if self.load_part is not None and self.kind is not StepKind.INITIAL:
            raise ValueError(f"only an initial load has parts, found one in a step of kind {self.kind}")


def refuse_gaps_in_ordinals(steps: Sequence[Step]) -> None:
    """Raise ValueError unless the steps are numbered 0, 1, 2, ... in this order."""
    found = [step.change_ordinal for step in steps]
    if found != list(range(len(found))):
        raise ValueError(f"the steps of a batch are numbered from 0 without gaps, found {found}")
