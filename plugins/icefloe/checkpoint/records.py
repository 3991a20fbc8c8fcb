"""The documents of a checkpoint; each is created once and never changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict

from icefloe.checkpoint.batch_spec import BatchSpec, Identity
from icefloe.checkpoint.ending import BatchOutcome, Cursor, Ending
from icefloe.documents import LEFT_OUT_IF_NONE, STRICT, SnapshotId
from icefloe.iceberg.step import LoadPart, Step

__all__ = ["CommitRecord", "OffsetRecord", "OwnerRecord", "PipelineRecord", "Writer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A writer to a checkpoint.

    Attributes:
        owner: UUID of an Airflow or value of ``ICEFLOE_OWNER``; None: nobody in particular.
        run: for people.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    owner: str | None = None
    run: str | None = None

    def __str__(self) -> str:
        owner = "nobody in particular (ICEFLOE_OWNER is not set)" if self.owner is None else f"owner {self.owner}"
        return owner if self.run is None else f"{owner}, {self.run}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRecord:
    """``pipeline.json``: the pipeline that the checkpoint was made for.

    Attributes:
        table_uuid: None if the table has none.
        result_configuration: keys that change the result, ``${ENV}`` unexpanded.
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
        checkpoint_id: the same in all owner records.
        writer: if its ``owner`` is None, anybody may write.
        since: ISO 8601.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    number: int
    checkpoint_id: str
    writer: Writer
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRecord:
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

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

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

        A pipeline that began at an empty table (``initial_load: from_now``) goes on from there, which is no beginning.
        """
        is_beginning = self.follows is None or self.follows.is_beginning
        return self.after_snapshot_id is None and (is_beginning or self.spec.is_reload)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """``commits/<batch>.json``: the batch has ended, however it did.

    Attributes:
        after_snapshot_id: where the changes begin; the cursor's if there are none.
        load_part: delivered part of a load in several batches; None for any other batch.
        counts: delivered changes by type.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

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

    @property
    def up_to_snapshot_id(self) -> int | None:
        """Snapshot of the cursor after the batch."""
        return self.ending.cursor.snapshot_id
