"""Steps, parts of a load and recorded snapshots, in the documents of a batch; snapshots before another."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Self

from icefloe.documents import LEFT_OUT_IF_NONE, Document, SnapshotId

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["LoadPart", "RecordedSnapshot", "Step", "StepKind"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPart(Document):
    """Files ``first_file`` to ``stop_file`` (exclusive) of a snapshot in manifest order, which never changes."""

    first_file: int
    stop_file: int
    num_files: int

    def __post_init__(self) -> None:
        if not 0 <= self.first_file < self.stop_file <= self.num_files:
            raise ValueError(
                f"a load of {self.num_files} files has no part from file {self.first_file} to {self.stop_file}"
            )

    @property
    def is_last(self) -> bool:
        """True if the load is complete with it."""
        return self.stop_file == self.num_files

    def __str__(self) -> str:
        """Counted from 1."""
        return f"files {self.first_file + 1} to {self.stop_file} of {self.num_files}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSnapshot(Document):
    """A snapshot that was delivered; ``schema_id`` is None if a V1 writer left it out."""

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
        """True if the snapshot is the recorded one, perhaps in a copy of the table."""
        (folder, name), (its_folder, its_name) = (
            each.rpartition("/")[::2] for each in (self.manifest_list, snapshot.manifest_list)
        )
        # In a copy of the table, or after its files were moved, the folder is another one.
        return (
            (self.sequence_number, self.timestamp_ms) == (snapshot.sequence_number or 0, snapshot.timestamp_ms)
            and (folder != its_folder or name == its_name)
        )  # fmt: skip


def ancestry(snapshots: "Mapping[int, Snapshot]", snapshot_id: int | None) -> "Iterator[Snapshot]":
    """A snapshot and its ancestors, newest first, as far as they exist."""
    # Writers may have formed a circle: the walk ends before a snapshot would come again.
    seen: set[int] = set()
    while snapshot_id is not None and snapshot_id in snapshots and snapshot_id not in seen:
        seen.add(snapshot_id)
        yield snapshots[snapshot_id]
        snapshot_id = snapshots[snapshot_id].parent_snapshot_id


class StepKind(StrEnum):
    """Ways in which the rows of a step are found."""

    COMMIT = "commit"
    """Rows that are added and deleted by the manifests that ``snapshot_ids`` added."""

    STATES = "states"
    """The difference of two states: rows live at ``end_snapshot_id`` less rows live at ``start_snapshot_id``."""

    INITIAL = "initial"
    """Every live row at ``end_snapshot_id``, as an insert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Document):
    """One change of the table's state that readers saw as one.

    Attributes:
        change_ordinal: from 0 in each batch.
        start_snapshot_id: the state before; None if there was none, if it has expired (a COMMIT does not need it),
            and for INITIAL.
        snapshot_ids: of a COMMIT, oldest first and without ``replace``; otherwise the end.
        commit_timestamp_us: delivered as ``_commit_timestamp``, microseconds since 1970.
        load_part: of an INITIAL step whose load takes several batches; None: all files.
        made_current_at_ms: time at which readers first saw the end, by the log of the branch; None: the lineage is
            followed.
        commit_properties: values of the summary of ``commit_snapshot_id`` that the pipeline asks for; None: it asks
            for none.
    """

    change_ordinal: int
    kind: StepKind
    start_snapshot_id: SnapshotId | None
    end_snapshot_id: SnapshotId
    snapshot_ids: tuple[SnapshotId, ...]
    commit_snapshot_id: SnapshotId
    commit_timestamp_us: int
    load_part: LoadPart | None = None
    made_current_at_ms: Annotated[int | None, LEFT_OUT_IF_NONE] = None
    commit_properties: Annotated[Mapping[str, str] | None, LEFT_OUT_IF_NONE] = field(default=None, hash=False)

    @classmethod
    def of(
        cls,
        kind: StepKind,
        snapshot_ids: Sequence[int],
        *,
        timestamp_ms: int,
        change_ordinal: int = 0,
        start_snapshot_id: int | None = None,
        made_current_at_ms: int | None = None,
    ) -> "Step":
        """The step that ends at the last of some snapshots."""
        return cls(
            change_ordinal=change_ordinal,
            kind=kind,
            start_snapshot_id=start_snapshot_id,
            end_snapshot_id=snapshot_ids[-1],
            snapshot_ids=tuple(snapshot_ids),
            commit_snapshot_id=snapshot_ids[-1],
            commit_timestamp_us=1000 * timestamp_ms,
            made_current_at_ms=made_current_at_ms,
        )

    def __post_init__(self) -> None:
        if self.change_ordinal < 0:
            raise ValueError(f"change_ordinal counts from 0, found {self.change_ordinal}")
        if not self.snapshot_ids:
            raise ValueError(f"the step that ends at snapshot {self.end_snapshot_id} names no snapshot")
        if self.load_part is not None and self.kind is not StepKind.INITIAL:
            raise ValueError(f"only an initial load has parts, found one in a step of kind {self.kind}")
