"""``reports/<batch>.json``: the figures of a batch."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal

from icefloe.batch.phase_record import PhaseRecord
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import BatchOutcome, CommitRecord
from icefloe.documents import LEFT_OUT_IF_NONE, Document, dump_document, load_document
from icefloe.errors import TerminalError
from icefloe.flow import Route
from icefloe.pipeline.settings import ChangesOption
from icefloe.sinks.manifest import BatchSummary

__all__ = ["BatchReport"]

_EXTREMES: Final = 5
SUMMED: Final = ("documents", "repeated", "retries", "refused", "dead_letters", "superseded", "bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme(Document):
    """A large value, and the number of its task."""

    number: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution(Document):
    """Spread of some tasks' values. A quartile is a task's value, the lower of two."""

    minimum: float
    p25: float
    median: float
    p75: float
    maximum: float
    largest: tuple[Extreme, ...]

    @classmethod
    def of(cls, values: Mapping[int, float]) -> "Distribution | None":
        """The distribution by task number; None if there are no values.

        >>> spread = Distribution.of({0: 10, 1: 900, 2: 30, 3: 20, 4: 40})
        >>> spread.minimum, spread.p25, spread.median, spread.p75, spread.maximum
        (10, 20, 30, 40, 900)
        >>> spread.largest[0]
        Extreme(number=1, value=900)
        """
        if not values:
            return None
        ascending = sorted(values.values())
        largest = sorted(values.items(), key=lambda item: (-item[1], item[0]))[:_EXTREMES]
        minimum, p25, median, p75, maximum = (ascending[(len(ascending) - 1) * each // 4] for each in range(5))
        return cls(
            minimum=minimum,
            p25=p25,
            median=median,
            p75=p75,
            maximum=maximum,
            largest=tuple(Extreme(number=number, value=value) for number, value in largest),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDelivery(Document):
    """A batch that is visible at its sink, with sums of `PartDelivery`."""

    version: Literal[1] = 1
    sink: str
    url: str
    parts: int
    documents: int
    repeated: int
    retries: int
    refused: int
    dead_letters: int
    superseded: int
    bytes: int
    visible_at: str
    lag_seconds: float | None  # from the last commit to ``visible_at``; None: the batch has no commit
    seconds: float  # of the last try
    # Where a table has the batch: its branch, snapshot and token.
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCheck(Document):
    """Inserts less deletes of one step; no ``expected`` value if the snapshot summaries do not say."""

    change_ordinal: int
    expected: int | None
    found: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport(Document):
    """Figures of one batch (docs/developers/formats.md).

    Attributes:
        batch: as the manifest has it.
        carried_over_rows: rows that cancelled out before the shuffle; a row counts in each step, so this may exceed
            ``rows_read``.
        seconds: from plan to commit; as the figures below, None if nothing was delivered or the tasks' files are gone.
        delivery: None if the files are the sink.
    """

    version: Literal[1] = 1
    batch: BatchSummary
    backfill_id: str | None = None
    route: Route = Route.NOTHING_TO_DO
    changes: ChangesOption = "each"
    skipped_replace_snapshots: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    carried_over_rows: int = 0
    shuffled_bytes: int = 0
    shuffled_rows: int = 0
    written_bytes: int = 0
    map_tasks: int = 0
    num_partitions: int = 0
    ranges: int = 0
    map_seconds: float = 0.0
    reduce_seconds: float = 0.0
    summary_checks: tuple[SummaryCheck, ...] = ()
    warnings: tuple[str, ...]
    committed_at: str
    seconds: float | None = None
    phases: tuple[PhaseRecord, ...] = ()
    removed_rows_read: int | None = None
    added_rows_read: int | None = None
    map_outputs_redone: int | None = None
    fetched_bytes: int | None = None
    fetched_blocks: int | None = None
    decoded_bytes: int | None = None
    map_task_bytes: Distribution | None = None
    map_task_seconds: Distribution | None = None
    range_bytes: Distribution | None = None
    range_seconds: Distribution | None = None
    delivery: Annotated[BatchDelivery | None, LEFT_OUT_IF_NONE] = None

    @classmethod
    def load(cls, checkpoint: Checkpoint, batch_number: int, *, backfill_id: str | None) -> "BatchReport":
        """The report of a committed batch; if somebody deleted it, as far as the commit record knows it."""
        what = f"the report of batch {batch_number} in {checkpoint.url}"
        data = checkpoint.report(batch_number)
        report = None if data is None else load_document(cls, data, what=what)
        if report is not None and report.delivery is None:
            return report
        commit = checkpoint.committed(batch_number)
        # A reset gives up a delivery whose run may have written its report already, and may be killed before its own.
        if commit is not None and commit.outcome is BatchOutcome.ABANDONED:
            return cls.of_given_up(checkpoint, commit)
        if commit is not None and report is None:
            why = f"{what} is missing: the figures of its tasks are unknown"
            return cls._of_commit(checkpoint, commit, why, backfill_id=backfill_id)
        if report is None:
            raise TerminalError(f"{what} is missing, and the batch is not committed", batch_number=batch_number)
        return report

    @classmethod
    def of_given_up(cls, checkpoint: Checkpoint, commit: CommitRecord) -> "BatchReport":
        """The report of a batch that a reset gave up after a run had proven it."""
        number, writer = commit.batch_number, commit.committed_by
        why = f"batch {number} was given up half delivered: the pipeline was reset ({writer})"
        return cls._of_commit(checkpoint, commit, why)

    @classmethod
    def _of_commit(
        cls, checkpoint: Checkpoint, commit: CommitRecord, why: str, *, backfill_id: str | None = None
    ) -> "BatchReport":
        number = commit.batch_number
        offset, pipeline = checkpoint.known_offset(number), checkpoint.pipeline()
        if pipeline is None:
            raise TerminalError(
                f"the record of the pipeline is gone from {checkpoint.url}, although batch {number} is committed",
                batch_number=number,
            )
        summary = BatchSummary.empty(
            pipeline.name, pipeline.table, batch_number=number, snapshot_id=commit.end.snapshot_id
        )
        rows = sum(commit.counts.values())
        return cls(
            batch=replace(
                summary,
                after_snapshot_id=commit.after_snapshot_id,
                steps=commit.steps,
                rows=rows,
                counts=commit.counts,
                changed_partitions=None if rows else (),
            ),
            backfill_id=backfill_id,
            route=Route(commit.route),
            changes=offset.spec.changes,
            warnings=(why,),
            committed_at=commit.committed_at,
        )

    def keep(self, checkpoint: Checkpoint, checkpoint_id: str) -> bool:
        """Stores the report; False if the batch has one already, which counts.

        Several runs may commit a batch at once, or a zombie after the commit.
        """
        return checkpoint.create_report(self.batch.batch_number, dump_document(self), checkpoint_id=checkpoint_id)
