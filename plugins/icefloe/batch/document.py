"""The plan of a batch: a header and one document per map task, all a task ever reads of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from icefloe.checkpoint.records import Identity
from icefloe.documents import STRICT, SnapshotId
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.step import Step

__all__ = ["FileWork", "MapTask", "Plan", "Route"]


class Route(StrEnum):
    """Which way a batch goes through the DAG."""

    INSERT_ONLY = "insert_only"
    SHUFFLE = "shuffle"
    NOTHING_TO_DO = "nothing_to_do"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWork:
    """One data file and the weight its live rows have in each step that touches it."""

    __pydantic_config__ = STRICT

    data_file: DataFile
    weights: tuple[tuple[int, int], ...]
    """Pairs of (change_ordinal, weight), ascending by ordinal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapTask:
    """What one task of phase one reads: files that probably hold the same rows, bounded by bytes."""

    __pydantic_config__ = STRICT

    version: Literal[1] = 1
    map_id: int
    files: tuple[FileWork, ...]

    @property
    def size_bytes(self) -> int:
        """File bytes to read."""
        return sum(work.data_file.file_size_bytes for work in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The header of a plan: everything tasks share. It holds no secret and never changes.

    Attributes:
        changes: those of ``each`` step, or the ``net`` ones of the whole batch.
        map_task_bytes: file bytes of each map task, by map_id; tells engines which are the largest.
        partitions_reason: why ``num_partitions`` is what it is, for people.
        summary_row_deltas: per ordinal, inserts less deletes by the snapshot summaries; None where they do not say.
        table_schema: Iceberg's JSON of the schema rows are delivered in.
        catalog: as the pipeline names it, ``${ENV}`` unexpanded.
    """

    __pydantic_config__ = STRICT

    version: Literal[1] = 1
    icefloe_version: str
    pipeline: str
    batch_number: int
    backfill_id: str | None
    route: Route
    table: str
    table_location: str
    catalog: str | Mapping[str, str]
    checkpoint_url: str
    batch_url: str
    sink: Mapping[str, Any]
    after_snapshot_id: SnapshotId | None
    up_to_snapshot_id: SnapshotId | None
    steps: tuple[Step, ...]
    changes: Literal["each", "net"] = "each"
    summary_row_deltas: tuple[int | None, ...]
    on_summary_mismatch: Literal["fail", "warn"]
    table_schema: Mapping[str, Any]
    name_mapping: Any
    identity: Identity
    map_task_bytes: tuple[int, ...]
    input_rows: int
    num_partitions: int
    partitions_reason: str
    cores: int
    target_size_bytes: int
    memory_bytes: int
    skipped_replace_snapshots: int
    warnings: tuple[str, ...]
    planned_at: str

    @property
    def is_net(self) -> bool:
        """Whether changes are those of the whole batch, so that ordinals say which step was last, not what it did."""
        return self.changes == "net"

    @property
    def num_map_tasks(self) -> int:
        """How many map tasks there are; their ids are 0 to this, exclusive."""
        return len(self.map_task_bytes)
