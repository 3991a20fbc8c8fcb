"""The checkpoint of a pipeline: which batches were opened and which are done. Nothing is ever found by listing."""

from dataclasses import dataclass
from typing import TypeVar

from icefloe.checkpoint.layout import PIPELINE, backfill_prefix, commit_key, offset_key, report_key
from icefloe.checkpoint.records import CommitRecord, OffsetRecord, PipelineRecord
from icefloe.documents import dump_document, load_document
from icefloe.errors import TerminalError
from icefloe.storage.store import KeyMissingError, Store

__all__ = ["Checkpoint", "Cursor"]

Record = TypeVar("Record", PipelineRecord, OffsetRecord, CommitRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Where the next batch begins: the end of the last committed one; None: before the table's first snapshot."""

    batch_number: int
    snapshot_id: int | None


class Checkpoint:
    """Records of one pipeline, or of one backfill of it, created only if absent: the first writer counts.

    Batches are numbered 0, 1, 2, ... without gaps, and a batch is opened only when the one before is committed.

    Args:
        store: the checkpoint's place.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def url(self) -> str:
        """Where the checkpoint stands."""
        return self._store.url

    def backfill(self, backfill_id: str) -> "Checkpoint":
        """The checkpoint of a backfill of this pipeline."""
        return Checkpoint(self._store.child(backfill_prefix(backfill_id)))

    def pipeline(self) -> PipelineRecord | None:
        """What the checkpoint was made for; None before its first batch."""
        return self._load(PipelineRecord, PIPELINE)

    def create_pipeline(self, record: PipelineRecord) -> PipelineRecord:
        """Records what the checkpoint is for; returns the record that counts."""
        return self._create(record, PIPELINE)

    def latest_batch(self) -> int | None:
        """The highest batch number; None before the first batch. Takes a number of look-ups logarithmic in it."""
        if not self._has_offset(0):
            return None
        there, step = 0, 1
        while self._has_offset(there + step):
            there, step = there + step, step * 2
        absent = there + step
        while absent - there > 1:
            middle = (there + absent) // 2
            there, absent = (middle, absent) if self._has_offset(middle) else (there, middle)
        return there

    def offset(self, batch_number: int) -> OffsetRecord | None:
        """What a batch reads; None when it was never opened."""
        return self._load(OffsetRecord, offset_key(batch_number))

    def create_offset(self, record: OffsetRecord) -> OffsetRecord:
        """Opens a batch; returns the record that counts, which another run may have written.

        Raises:
            TerminalError: the batch before is still open, or was never opened.
        """
        number = record.batch_number
        if number > 0 and self.committed(number - 1) is None:
            raise TerminalError(
                f"batch {number} cannot be opened: batch {number - 1} of {self.url} is not committed; run it first",
                url=self.url,
                batch_number=number,
            )
        return self._create(record, offset_key(number))

    def committed(self, batch_number: int) -> CommitRecord | None:
        """That a batch is done; None while it is open."""
        return self._load(CommitRecord, commit_key(batch_number))

    def create_commit(self, record: CommitRecord) -> CommitRecord:
        """Closes a batch and so moves the cursor; returns the record that counts.

        Raises:
            TerminalError: the batch was never opened, or ends elsewhere.
        """
        offset = self.offset(record.batch_number)
        if offset is None or offset.up_to_snapshot_id != record.up_to_snapshot_id:
            raise TerminalError(
                f"batch {record.batch_number} of {self.url} was not opened up to snapshot {record.up_to_snapshot_id}, "
                "so it cannot be committed",
                url=self.url,
                batch_number=record.batch_number,
            )
        return self._create(record, commit_key(record.batch_number))

    def open_batch(self) -> OffsetRecord | None:
        """The batch that was opened and is not done; a run must resume it."""
        latest = self.latest_batch()
        if latest is None or self.committed(latest) is not None:
            return None
        return self.offset(latest)

    def cursor(self) -> Cursor | None:
        """Where the last committed batch ended; None when none is."""
        latest = self.latest_batch()
        for number in () if latest is None else (latest, latest - 1):
            commit = self.committed(number) if number >= 0 else None
            if commit is not None:
                return Cursor(batch_number=number, snapshot_id=commit.up_to_snapshot_id)
        return None

    def put_report(self, batch_number: int, report: bytes) -> None:
        """Keeps the report of a batch."""
        self._store.put(report_key(batch_number), report)

    def report(self, batch_number: int) -> bytes | None:
        """The report of a batch."""
        try:
            return self._store.get(report_key(batch_number))
        except KeyMissingError:
            return None

    def _has_offset(self, batch_number: int) -> bool:
        return self._store.size(offset_key(batch_number)) is not None

    def _load(self, kind: type[Record], key: str) -> Record | None:
        try:
            data = self._store.get(key)
        except KeyMissingError:
            return None
        return load_document(kind, data, what=f"the checkpoint record {self.url}/{key}")

    def _create(self, record: Record, key: str) -> Record:
        if self._store.create(key, dump_document(record)):
            return record
        winner = self._load(type(record), key)
        if winner is None:
            raise TerminalError(f"the checkpoint record {self.url}/{key} was deleted while a batch ran", url=self.url)
        return winner
