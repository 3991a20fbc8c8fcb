"""The ends of batches, and the documents of a checkpoint; each is created once and never changed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Literal

from icefloe.checkpoint.batch_spec import BatchSpec, Identity
from icefloe.documents import LEFT_OUT_IF_EMPTY, LEFT_OUT_IF_NONE, Document, SnapshotId
from icefloe.iceberg.step import LoadPart, RecordedSnapshot
from icefloe.units import time_of_ms

__all__ = ["BatchOutcome", "CommitRecord", "Cursor", "Ending", "OffsetRecord", "PipelineRecord", "Writer"]


class BatchOutcome(StrEnum):
    """The end of a batch. Only the first kind delivers anything."""

    DELIVERED = "delivered"
    ABANDONED = "abandoned"
    CURSOR_SET = "cursor_set"
    RESET = "reset"

    @property
    def state(self) -> str:
        """The state of a batch that ended so."""
        return "committed" if self is BatchOutcome.DELIVERED else self.value.replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor(Document):
    """The place that a pipeline has come to with a batch, and that the next batch follows.

    Attributes:
        batch_number: of that batch.
        snapshot_id: None: before the table's first snapshot.
        snapshot: more than its id, which its writer may use again.
        made_current_at_ms: time of its entry in the branch's log, under ``follow: log``.
        load_part: last delivered part of an incomplete load.
        is_beginning: True if nothing counts as delivered, so that the next batch begins as ``initial_load`` says: after
            a reset, or an abandoned first batch.
        pipeline_since: number of the move, mostly a reset, whose offset records the pipeline; None: ``pipeline.json``
            does.
    """

    batch_number: int
    snapshot_id: SnapshotId | None
    load_part: LoadPart | None = None
    is_beginning: Annotated[bool, LEFT_OUT_IF_EMPTY] = False
    pipeline_since: Annotated[int | None, LEFT_OUT_IF_NONE] = None
    snapshot: Annotated[RecordedSnapshot | None, LEFT_OUT_IF_NONE] = None
    made_current_at_ms: Annotated[int | None, LEFT_OUT_IF_NONE] = None

    def __post_init__(self) -> None:
        if self.batch_number < 0:
            raise ValueError(f"batches are numbered from 0, found {self.batch_number}")

    @property
    def timestamp(self) -> str | None:
        """Commit time of the snapshot, ISO 8601; None if it was not recorded."""
        return None if self.snapshot is None else time_of_ms(self.snapshot.timestamp_ms)

    def __str__(self) -> str:
        part = "" if self.load_part is None else f", {self.load_part} of its load"
        return f"snapshot {self.snapshot_id}{part}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending(Document):
    """The end of a batch.

    A batch is opened with the ending that it comes to if nobody gives it up: it delivers its range, or it only moves
    the cursor. So any run that ends it records the same ending.
    """

    outcome: BatchOutcome
    cursor: Cursor

    def __post_init__(self) -> None:
        """Refuse a reset after which something counts as delivered."""
        if self.outcome is BatchOutcome.RESET and not self.cursor.is_beginning:
            raise ValueError(f"a reset leaves the pipeline at its beginning, found {self.cursor}")

    @property
    def batch_number(self) -> int:
        """Number of the batch."""
        return self.cursor.batch_number

    @property
    def is_move(self) -> bool:
        """True if the batch only moves the cursor."""
        return self.outcome in (BatchOutcome.CURSOR_SET, BatchOutcome.RESET)

    @classmethod
    def after(
        cls,
        follows: Cursor | None,
        outcome: BatchOutcome,
        *,
        snapshot_id: int | None = None,
        snapshot: RecordedSnapshot | None = None,
        load_part: LoadPart | None = None,
        made_current_at_ms: int | None = None,
        has_pipeline: bool = False,
    ) -> "Ending":
        """The ending of the batch after a cursor, if the batch is not given up.

        Args:
            follows: None: the batch is the first one.
            load_part: part of a load that the batch delivers. After the last part, the snapshot is delivered as after
                any other batch.
            has_pipeline: True if the batch's offset has the record of the pipeline from here on.
        """
        number = 0 if follows is None else follows.batch_number + 1
        since = None if follows is None else follows.pipeline_since
        cursor = Cursor(
            batch_number=number,
            snapshot_id=snapshot_id,
            load_part=None if load_part is None or load_part.is_last else load_part,
            is_beginning=outcome is BatchOutcome.RESET,
            pipeline_since=number if has_pipeline else since,
            snapshot=snapshot,
            made_current_at_ms=made_current_at_ms,
        )
        return cls(outcome=outcome, cursor=cursor)

    @classmethod
    def delivered(cls, batch_number: int, snapshot_id: int | None) -> "Ending":
        """The ending of a delivered batch, as far as a run knows it; its offset has all of it."""
        return cls(outcome=BatchOutcome.DELIVERED, cursor=Cursor(batch_number=batch_number, snapshot_id=snapshot_id))

    @classmethod
    def abandoned(cls, follows: Cursor | None, *, is_half_delivered: bool = False) -> "Ending":
        """The ending of a batch that is given up: the pipeline stays where it was.

        Args:
            is_half_delivered: a sink may hold a part of the batch: a load comes next, and replaces that.
        """
        if follows is None or is_half_delivered:
            cursor = cls.after(follows, BatchOutcome.RESET).cursor
        else:
            cursor = replace(follows, batch_number=follows.batch_number + 1)
        return cls(outcome=BatchOutcome.ABANDONED, cursor=cursor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer(Document):
    """A writer to a checkpoint.

    Attributes:
        owner: UUID of an Airflow or value of ``ICEFLOE_OWNER``; None: nobody in particular.
        run: for people.
    """

    owner: str | None = None
    run: str | None = None

    @staticmethod
    def owner_in(environ: Mapping[str, str]) -> str | None:
        """Any text that this deployment shares with no other, such as a UUID; None if the environment names none.

        >>> Writer.owner_in({"ICEFLOE_OWNER": " team-a "}), Writer.owner_in({})
        ('team-a', None)
        """
        return environ.get("ICEFLOE_OWNER", "").strip() or None

    def __str__(self) -> str:
        owner = "nobody in particular (ICEFLOE_OWNER is not set)" if self.owner is None else f"owner {self.owner}"
        return owner if self.run is None else f"{owner}, {self.run}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRecord(Document):
    """``pipeline.json``: the pipeline that the checkpoint was made for.

    Attributes:
        table_uuid: None if the table has none.
        result_configuration: keys that change the result, ``${ENV}`` unexpanded.
    """

    version: Literal[1] = 1
    checkpoint_id: str
    name: str
    table: str
    table_uuid: str | None
    table_location: str
    identity: Identity
    result_configuration: Mapping[str, object]
    icefloe_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRecord(Document):
    """``owners/<number>.json``: an owner of the checkpoint; the last one counts."""

    version: Literal[1] = 1
    number: int  # from 0; one more with each new owner
    checkpoint_id: str  # the same in all owner records
    writer: Writer  # if its ``owner`` is None, anybody may write
    since: str  # ISO 8601


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRecord(Document):
    """``offsets/<batch>.json``: the specification of a batch, written before any work.

    Attributes:
        follows: end of the batch before, from which the range was decided; None for the first batch.
        ending: unless the batch is abandoned. Any run that finds a batch open that only moves the cursor records it.
        pipeline: record of the pipeline from here on; None: the one before still counts.
        plan_digest: of the plan of ``spec``; a plan that is made again must have the same. None for a batch that only
            moves the cursor.
        warnings: from choosing the range.
        result_configuration: keys that change the result, ``${ENV}`` unexpanded.
    """

    version: Literal[1] = 1
    checkpoint_id: str
    opened_by: Writer
    follows: Cursor | None = None
    spec: BatchSpec
    ending: Ending
    pipeline: Annotated[PipelineRecord | None, LEFT_OUT_IF_NONE] = None
    plan_digest: str | None = None
    warnings: tuple[str, ...] = ()
    result_configuration: Mapping[str, object]
    opened_at: str
    icefloe_version: str

    def __post_init__(self) -> None:
        number = 0 if self.follows is None else self.follows.batch_number + 1
        if self.batch_number != number:
            raise ValueError(f"a batch that follows {self.follows} has number {number}, found {self.batch_number}")
        if self.ending.cursor.snapshot_id != self.spec.up_to_snapshot_id:
            raise ValueError(f"a batch up to {self.spec.up_to_snapshot_id} cannot end at {self.ending.cursor}")

    @property
    def batch_number(self) -> int:
        """Number of the batch."""
        return self.ending.batch_number

    @property
    def selected_columns(self) -> tuple[str, ...] | None:
        """Dotted names of the delivered columns; None: all. In the specification, the identity is behind them."""
        selected = self.result_configuration.get("columns")
        return self.spec.columns[: len(selected)] if self.spec.columns and isinstance(selected, list) else None

    @property
    def begins_anew(self) -> bool:
        """True if nothing that was delivered before counts: the pipeline begins, or its table is loaded again.

        A pipeline that began at an empty table (``initial_load: from_now``) goes on from there, which is no beginning.
        """
        is_beginning = self.follows is None or self.follows.is_beginning
        return self.spec.after_snapshot_id is None and (is_beginning or self.spec.is_reload)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord(Document):
    """``commits/<batch>.json``: the batch has ended, however it did.

    Attributes:
        after_snapshot_id: where the changes begin; the cursor's if there are none.
        load_part: delivered part of a load in several batches; None for any other batch.
        counts: delivered changes by type.
    """

    version: Literal[1] = 1
    checkpoint_id: str
    ending: Ending
    committed_by: Writer
    after_snapshot_id: SnapshotId | None
    load_part: LoadPart | None = None
    route: str
    steps: int
    counts: Mapping[str, int]
    committed_at: str

    @property
    def batch_number(self) -> int:
        """Number of the batch."""
        return self.ending.batch_number

    @property
    def outcome(self) -> BatchOutcome:
        """The way in which the batch ended."""
        return self.ending.outcome

    @property
    def end(self) -> Cursor:
        """Cursor after the batch."""
        return self.ending.cursor
