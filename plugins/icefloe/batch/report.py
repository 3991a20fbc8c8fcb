"""``report.json``: what a batch did, for people, dashboards and the page in Airflow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from icefloe.batch.document import Route
from icefloe.checkpoint.log import Checkpoint
from icefloe.documents import STRICT, Hash128, SnapshotId, load_document
from icefloe.errors import TerminalError

__all__ = ["BatchReport", "SummaryCheck", "load_report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCheck:
    """Whether inserts less deletes of one step equal what the snapshot summaries say.

    Attributes:
        expected: None where the summaries do not say; then nothing was compared.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    change_ordinal: int
    expected: int | None
    found: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What one batch did. Quantities carry their units; ``seconds`` are summed over tasks, not wall time.

    Attributes:
        counts: rows by change type.
        carried_over_rows: rows read that cancelled out before the shuffle.
        shuffled_bytes: compressed bytes of all map outputs.
        hash_sum: the signed sum of the row hashes of all changes, equal where they were read and where they left.
        summary_checks: per step.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    pipeline: str
    table: str
    batch_number: int
    backfill_id: str | None
    route: Route
    after_snapshot_id: SnapshotId | None
    up_to_snapshot_id: SnapshotId | None
    steps: int
    skipped_replace_snapshots: int
    counts: Mapping[str, int]
    rows_read: int
    bytes_read: int
    carried_over_rows: int
    shuffled_bytes: int
    shuffled_rows: int
    written_bytes: int
    map_tasks: int
    num_partitions: int
    ranges: int
    map_seconds: float
    reduce_seconds: float
    hash_sum: Hash128
    summary_checks: tuple[SummaryCheck, ...]
    warnings: tuple[str, ...]
    committed_at: str


def load_report(checkpoint: Checkpoint, batch_number: int) -> BatchReport:
    """The report of a committed batch.

    Raises:
        TerminalError: it is gone.
    """
    what = f"the report of batch {batch_number} in {checkpoint.url}"
    data = checkpoint.report(batch_number)
    if data is None:
        raise TerminalError(f"{what} is gone, although the batch is committed", batch_number=batch_number)
    return load_document(BatchReport, data, what=what)
