"""The documents of a checkpoint; each is created once and never changed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, TypeVar

from pydantic import ConfigDict

from icefloe.documents import STRICT, SnapshotId, load_document
from icefloe.errors import TerminalError
from icefloe.iceberg.load_part import LoadPart
from icefloe.iceberg.step import Step, refuse_gaps_in_ordinals

__all__ = ["CommitRecord", "Identity", "NewerRecordError", "OffsetRecord", "PipelineRecord", "Record", "load_record"]

_VERSION: Final = 1


Record = TypeVar("Record", "PipelineRecord", "OffsetRecord", "CommitRecord")


class NewerRecordError(TerminalError):
    """A record was written by a newer release. Facts: ``url``, ``version``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What makes two rows the same row, chosen once when a pipeline starts.

    Attributes:
        policy: ``pipeline`` (its identifier_columns), ``table`` (its identifier fields), ``row_id`` (the row ids of V3
            tables) or ``none``.
        columns: dotted column names; empty exactly when the policy is ``row_id`` or ``none``.
        field_ids: of the columns, for the policy ``table`` alone, which follows them when they are renamed.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    policy: Literal["pipeline", "table", "row_id", "none"]
    columns: tuple[str, ...] = ()
    field_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an identity that says two things."""
        if (self.policy in ("row_id", "none")) == bool(self.columns):
            raise ValueError(f"an identity of policy {self.policy} cannot have the columns {list(self.columns)}")

    def named_as(self, other: "Identity") -> "Identity":
        """This identity, by the column names of another where that is the same after columns were renamed.

        >>> then = Identity(policy="table", columns=("id",), field_ids=(1,))
        >>> then.named_as(Identity(policy="table", columns=("order_id",), field_ids=(1,))).columns
        ('order_id',)
        """
        return other if (self.policy, self.field_ids) == (other.policy, other.field_ids) else self


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

    def __post_init__(self) -> None:
        """Refuse what no planner makes."""
        _refuse_negative(self.batch_number)
        refuse_gaps_in_ordinals(self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """``commits/<batch>.json``: the batch is done.

    Attributes:
        counts: changes delivered, by type.
        load_part: that the batch delivered of a load in several batches; None of any other.
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
    load_part: LoadPart | None = None

    def __post_init__(self) -> None:
        """Refuse what no batch leaves."""
        _refuse_negative(self.batch_number)


def load_record(kind: type[Record], data: bytes, *, url: str) -> Record:
    """The record in ``data``, read from ``url``.

    Raises:
        NewerRecordError: its version is one this release does not know yet.
        TerminalError: it is damaged, or no such record.
    """
    version = _version(data)
    if version is not None and version > _VERSION:
        raise NewerRecordError(
            f"the checkpoint record {url} has version {version}, but this release of icefloe knows only {_VERSION}: a "
            "newer one wrote it; run that release",
            url=url,
            version=version,
        )
    return load_document(kind, data, what=f"the checkpoint record {url}")


def _version(data: bytes) -> int | None:
    """The version a record says it has; None where that cannot be told, which `load_document` then explains."""
    try:
        document = json.loads(data)
    except ValueError:
        return None
    version = document.get("version") if isinstance(document, dict) else None
    return version if isinstance(version, int) else None


def _refuse_negative(batch_number: int) -> None:
    if batch_number < 0:
        raise ValueError(f"batches are numbered from 0, found {batch_number}")
