"""The documents of a checkpoint; each is created once and never changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from icefloe.documents import STRICT, SnapshotId
from icefloe.iceberg.step import Step

__all__ = ["CommitRecord", "Identity", "OffsetRecord", "PipelineRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What makes two rows the same row, chosen once when a pipeline starts.

    Attributes:
        policy: ``pipeline`` (its identifier_columns), ``table`` (its identifier fields) or ``none``.
        columns: dotted column names; empty exactly when the policy is ``none``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    policy: Literal["pipeline", "table", "none"]
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRecord:
    """``pipeline.json``: what the checkpoint was made for.

    Attributes:
        table_uuid: None where the table has none.
        result_configuration: the keys that change the result, ``${ENV}`` unexpanded.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    name: str
    table: str
    table_uuid: str | None
    table_location: str
    identity: Identity
    result_configuration: Mapping[str, Any]
    icefloe_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRecord:
    """``offsets/<batch>.json``: what a batch reads, written before any work.

    Attributes:
        after_snapshot_id: exclusive; None: from before the table's first snapshot.
        up_to_snapshot_id: inclusive; the cursor once the batch is committed.
        steps: by ordinal.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    batch_number: int
    after_snapshot_id: SnapshotId | None
    up_to_snapshot_id: SnapshotId | None
    steps: tuple[Step, ...]
    skipped_replace_snapshots: int
    warnings: tuple[str, ...]
    identity: Identity
    result_configuration: Mapping[str, Any]
    tuning_configuration: Mapping[str, Any]
    opened_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """``commits/<batch>.json``: the batch is done.

    Attributes:
        counts: changes delivered, by type.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    batch_number: int
    after_snapshot_id: SnapshotId | None
    up_to_snapshot_id: SnapshotId | None
    route: str
    steps: int
    counts: Mapping[str, int]
    committed_at: str
