"""The plan of a batch: a header and one document per map task, all a task ever reads of it."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from icefloe.checkpoint.records import Identity
from icefloe.documents import STRICT, SnapshotId, document_digest
from icefloe.flow import Route
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.delete_file import DeleteFile
from icefloe.iceberg.step import Step

__all__ = ["DeleteState", "FileWork", "MapTask", "Plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteState:
    """The delete files in force on a data file at one state of the table, as the difference to the state before it.

    Attributes:
        added: which of the map task's delete files come into force.
        dropped: which no longer are.
    """

    __pydantic_config__ = STRICT

    added: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWork:
    """One data file and the weights its rows have in each step that touches them.

    Attributes:
        terms: (change_ordinal, weight, delete state), ascending by ordinal: the rows that are live in that delete state
            have the weight; the terms of one ordinal add up.
        delete_states: state 0 is that of no delete file in force; ``delete_states[i]`` is state i + 1, told by its
            difference to state i.
    """

    __pydantic_config__ = STRICT

    data_file: DataFile
    terms: tuple[tuple[int, int, int], ...]
    delete_states: tuple[DeleteState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MapTask:
    """What one task of phase one reads: files that probably hold the same rows, bounded by bytes.

    Attributes:
        delete_files: that its delete states name by their place here.
    """

    __pydantic_config__ = STRICT

    version: Literal[1] = 1
    map_id: int
    files: tuple[FileWork, ...]
    delete_files: tuple[DeleteFile, ...] = ()

    @property
    def size_bytes(self) -> int:
        """File bytes to read."""
        deletes = sum(delete_file.size_bytes for delete_file in self.delete_files)
        return sum(work.data_file.file_size_bytes for work in self.files) + deletes


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The header of a plan, format 2: everything tasks share. It holds no secret and never changes.

    Attributes:
        version: 1 if a release before format 2 made it, which pinned neither offset, settings nor tasks.
        checkpoint_id: whose batch it is; None in format 1, as are the digests.
        offset_digest: of the offset record that the plan was made for.
        settings_digest: of what ``${ENV}`` in ``filter`` and ``sink`` meant; see `RunSettings`.
        sink: its settings, ``${ENV}`` unexpanded.
        map_task_digests: by map_id; part of the names of the documents, so that no other plan can replace them.
        changes: those of ``each`` step, or the ``net`` ones of the whole batch.
        map_task_bytes: file bytes of each map task, by map_id; tells engines which are the largest.
        partitions_reason: why ``num_partitions`` is what it is, for people.
        summary_row_deltas: per ordinal, inserts less deletes by the snapshot summaries; None where they do not say.
        table_schema: Iceberg's JSON of the table's schema at the batch's last snapshot.
        columns: those that are delivered; None: all.
        filter: which rows count, an Iceberg expression, ``${ENV}`` unexpanded; None: all.
        equality_schemas: by the field ids of equality delete files, joined by commas, Iceberg's JSON of those columns.
        catalog: as the pipeline names it, ``${ENV}`` unexpanded.
        allowed_locations: of the pipeline when the batch was planned, likewise.
    """

    __pydantic_config__ = STRICT

    version: Literal[1, 2] = 2
    icefloe_version: str
    checkpoint_id: str | None = None
    offset_digest: str | None = None
    settings_digest: str | None = None
    pipeline: str
    batch_number: int
    backfill_id: str | None
    route: Route
    table: str
    table_location: str
    catalog: str | Mapping[str, str]
    sink: Mapping[str, Any]
    after_snapshot_id: SnapshotId | None
    up_to_snapshot_id: SnapshotId | None
    steps: tuple[Step, ...]
    changes: Literal["each", "net"] = "each"
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    summary_row_deltas: tuple[int | None, ...]
    table_schema: Mapping[str, Any]
    name_mapping: Any
    equality_schemas: Mapping[str, Mapping[str, Any]]
    identity: Identity
    map_task_bytes: tuple[int, ...]
    map_task_digests: tuple[str, ...] = ()
    input_rows: int
    num_partitions: int
    partitions_reason: str
    cores: int
    target_size_bytes: int
    skipped_replace_snapshots: int
    warnings: tuple[str, ...]
    planned_at: str
    allowed_locations: Annotated[tuple[str, ...], Field(exclude_if=operator.not_)] = ()

    @property
    def is_net(self) -> bool:
        """Whether changes are those of the whole batch, so that ordinals say which step was last, not what it did."""
        return self.changes == "net"

    @property
    def num_map_tasks(self) -> int:
        """How many map tasks there are; their ids are 0 to this, exclusive."""
        return len(self.map_task_bytes)

    @property
    def digest(self) -> str:
        """Of everything that decides rows, parts and their order: equal for a plan that is made again."""
        return document_digest(replace(self, **_INCIDENTAL))


_INCIDENTAL: Final[Mapping[str, Any]] = {
    "icefloe_version": "",
    "checkpoint_id": None,
    "offset_digest": None,
    "settings_digest": None,
    "table_location": "",
    "catalog": "",
    "allowed_locations": (),
    "partitions_reason": "",
    "warnings": (),
    "planned_at": "",
}
"""What may differ between two makings of one plan."""
