"""The documents of a checkpoint; each is created once and never changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict

from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.checkpoint.cursor import BatchOutcome, Cursor
from icefloe.checkpoint.identity import Identity
from icefloe.documents import LEFT_OUT_IF_FALSE, LEFT_OUT_IF_NONE, STRICT, SnapshotId
from icefloe.iceberg.load_part import LoadPart
from icefloe.iceberg.recorded_snapshot import RecordedSnapshot
from icefloe.iceberg.step import Step

__all__ = ["CommitRecord", "CursorMove", "OffsetRecord", "OwnerRecord", "PipelineRecord", "Writer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A writer to a checkpoint.

    Attributes:
        owner: the UUID of an Airflow or the value of ``ICEFLOE_OWNER``; None: nobody in particular.
        run: run of the owner, for people.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    owner: str | None = None
    run: str | None = None

    def __str__(self) -> str:
        """The writer in words, for errors."""
        owner = "nobody in particular (ICEFLOE_OWNER is not set)" if self.owner is None else f"owner {self.owner}"
        return owner if self.run is None else f"{owner}, {self.run}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRecord:
    """``pipeline.json``: the pipeline that the checkpoint was made for.

    Attributes:
        table_uuid: None if the table has none.
        result_configuration: the keys that change the result, ``${ENV}`` unexpanded.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

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
class OwnerRecord:
    """``owners/<number>.json``: an owner of the checkpoint; the last one counts.

    Attributes:
        number: from 0; one more with each new owner.
        checkpoint_id: id of the checkpoint, the same in all owner records.
        writer: the owner as a writer; if its ``owner`` is None, anybody may write.
        since: start of the ownership, ISO 8601.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    number: int
    checkpoint_id: str
    writer: Writer
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorMove:
    """The purpose of a batch that delivers nothing and only moves the cursor. Any run that finds it open commits it.

    Attributes:
        outcome: `BatchOutcome.CURSOR_SET` or `BatchOutcome.RESET`.
        pipeline: record of the pipeline from here on, in place of the one before; None: the one before still counts.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    outcome: Literal[BatchOutcome.CURSOR_SET, BatchOutcome.RESET]
    pipeline: Annotated[PipelineRecord | None, LEFT_OUT_IF_NONE] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRecord:
    """``offsets/<batch>.json``: the specification of a batch, written before any work.

    Attributes:
        opened_by: run that opened the batch.
        follows: end of the batch before, from which the range was decided; None for the first batch.
        plan_digest: digest of the plan that was made from ``spec``; a plan that is made again must have the same
            digest. None for a batch that only moves the cursor.
        warnings: warnings from choosing the range.
        result_configuration: the keys that change the result, ``${ENV}`` unexpanded.
        snapshot: more of the snapshot that the batch ends with than its id.
        move: None for a batch that delivers changes.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    batch_number: int
    checkpoint_id: str
    opened_by: Writer
    follows: Cursor | None = None
    spec: BatchSpec
    plan_digest: str | None = None
    warnings: tuple[str, ...] = ()
    result_configuration: Mapping[str, object]
    opened_at: str
    icefloe_version: str
    move: Annotated[CursorMove | None, LEFT_OUT_IF_NONE] = None
    snapshot: Annotated[RecordedSnapshot | None, LEFT_OUT_IF_NONE] = None

    def __post_init__(self) -> None:
        """Refuse a batch that does not follow the one before it."""
        _refuse_negative(self.batch_number)
        number = 0 if self.follows is None else self.follows.batch_number + 1
        if self.batch_number != number:
            raise ValueError(f"a batch that follows {self.follows} has number {number}, found {self.batch_number}")

    @property
    def after_snapshot_id(self) -> int | None:
        """See `BatchSpec`."""
        return self.spec.after_snapshot_id

    @property
    def up_to_snapshot_id(self) -> int | None:
        """See `BatchSpec`."""
        return self.spec.up_to_snapshot_id

    @property
    def steps(self) -> tuple[Step, ...]:
        """See `BatchSpec`."""
        return self.spec.steps

    @property
    def begins_anew(self) -> bool:
        """True if nothing that was delivered before counts: the pipeline begins, or its table is loaded again.

        A batch that begins before the table's first snapshot need not be one: a pipeline that began at an empty table
        (``initial_load: from_now``) goes on from there.
        """
        is_beginning = self.follows is None or self.follows.is_beginning
        return self.after_snapshot_id is None and (is_beginning or self.spec.is_reload)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """``commits/<batch>.json``: the batch is done.

    Attributes:
        committed_by: run that committed the batch.
        route: way through the flow; for a batch that delivered nothing, its outcome.
        counts: changes delivered, by type.
        load_part: part of a load in several batches that the batch delivered; None for any other batch.
        is_beginning: see `Cursor`; so are ``pipeline_since`` and ``snapshot``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    batch_number: int
    checkpoint_id: str
    committed_by: Writer
    after_snapshot_id: SnapshotId | None
    up_to_snapshot_id: SnapshotId | None
    route: str
    steps: int
    counts: Mapping[str, int]
    committed_at: str
    load_part: LoadPart | None = None
    is_beginning: Annotated[bool, LEFT_OUT_IF_FALSE] = False
    pipeline_since: Annotated[int | None, LEFT_OUT_IF_NONE] = None
    snapshot: Annotated[RecordedSnapshot | None, LEFT_OUT_IF_NONE] = None

    def __post_init__(self) -> None:
        """Refuse a record that no batch leaves."""
        _refuse_negative(self.batch_number)

    @property
    def outcome(self) -> BatchOutcome:
        """The end of the batch, which its route says."""
        return next((outcome for outcome in BatchOutcome if outcome == self.route), BatchOutcome.DELIVERED)

    @property
    def end(self) -> Cursor:
        """The cursor after the batch."""
        # After the last part of a load, the snapshot is delivered as after any other batch.
        part = self.load_part
        return Cursor(
            batch_number=self.batch_number,
            snapshot_id=self.up_to_snapshot_id,
            load_part=None if part is None or part.is_last else part,
            is_beginning=self.is_beginning,
            pipeline_since=self.pipeline_since,
            snapshot=self.snapshot,
        )


def _refuse_negative(batch_number: int) -> None:
    if batch_number < 0:
        raise ValueError(f"batches are numbered from 0, found {batch_number}")
