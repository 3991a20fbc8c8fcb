"""A snapshot as a checkpoint remembers it: more than its id, which a writer may use again."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import ConfigDict

from icefloe.documents import STRICT, SnapshotId

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["RecordedSnapshot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSnapshot:
    """A snapshot that was delivered; part of the documents of a batch.

    Attributes:
        snapshot_id: its id.
        parent_snapshot_id: the snapshot before it.
        sequence_number: 0 in V1 tables.
        timestamp_ms: time of its commit.
        manifest_list: location of its manifests' list.
        schema_id: of its schema; None if a V1 writer left it out.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    snapshot_id: SnapshotId
    parent_snapshot_id: SnapshotId | None
    sequence_number: int
    timestamp_ms: int
    manifest_list: str
    schema_id: int | None

    @classmethod
    def of(cls, snapshot: "Snapshot") -> Self:
        """A snapshot of a table."""
        return cls(
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number or 0,
            timestamp_ms=snapshot.timestamp_ms,
            manifest_list=snapshot.manifest_list,
            schema_id=snapshot.schema_id,
        )

    def is_same(self, snapshot: "Snapshot") -> bool:
        """True if a snapshot of the same id is the recorded one, perhaps in a copy of the table elsewhere."""
        (folder, name), (its_folder, its_name) = (
            each.rpartition("/")[::2] for each in (self.manifest_list, snapshot.manifest_list)
        )
        # In a copy of the table, or after its files were moved, the folder is another one.
        return (
            (self.sequence_number, self.timestamp_ms) == (snapshot.sequence_number or 0, snapshot.timestamp_ms)
            and (folder != its_folder or name == its_name)
        )  # fmt: skip
