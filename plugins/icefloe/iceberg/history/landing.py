"""A state of a table that is reached at once, without commits."""

from dataclasses import dataclass

from pyiceberg.table.snapshots import Snapshot

__all__ = ["Landing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """A state that is reached at once, without commits: of a load, or of a branch or tag that was moved.

    Attributes:
        snapshot: the state.
        left_snapshot_id: the state that was left for it; None: every row of the state is new.
        timestamp_ms: time when the state became current.
    """

    snapshot: Snapshot
    left_snapshot_id: int | None
    timestamp_ms: int

    @classmethod
    def of_load(cls, snapshot: Snapshot) -> "Landing":
        """A landing all of whose rows are new."""
        return cls(snapshot=snapshot, left_snapshot_id=None, timestamp_ms=snapshot.timestamp_ms)
