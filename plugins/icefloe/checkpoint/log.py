"""The checkpoint of a pipeline: which batches were opened and which are done. Nothing is ever found by listing."""

from dataclasses import dataclass
from typing import Self

from icefloe.checkpoint.gallop import last_present
from icefloe.checkpoint.layout import PIPELINE, STATUS, backfill_prefix, commit_key, offset_key, report_key
from icefloe.checkpoint.record_store import CheckpointGapError, RecordStore
from icefloe.checkpoint.records import CommitRecord, OffsetRecord, PipelineRecord
from icefloe.errors import TerminalError, TransientError
from icefloe.iceberg.load_part import LoadPart
from icefloe.storage.store import KeyMissingError, Store

__all__ = ["BatchNotOpenError", "Checkpoint", "Cursor", "CursorMovedError", "OpenBatchError"]


class OpenBatchError(TerminalError):
    """A batch cannot be opened while the one before is. Facts: ``url``, ``batch_number``, ``open_batch_number``."""


class BatchNotOpenError(TerminalError):
    """A batch cannot be committed, because it was not opened so. Facts: ``url``, ``batch_number``."""


class CursorMovedError(TransientError):
    """A batch was planned from a cursor that another run has moved since. Facts: ``url``, ``batch_number``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """Where the next batch begins: the end of the last committed one.

    Attributes:
        batch_number: of that one.
        snapshot_id: None: before the table's first snapshot.
        load_part: the last that was delivered of a load that is not complete.
    """

    batch_number: int
    snapshot_id: int | None
    load_part: LoadPart | None = None

    @classmethod
    def of(cls, commit: CommitRecord) -> Self:
        """That of the last committed batch."""
        part = commit.load_part
        return cls(
            batch_number=commit.batch_number,
            snapshot_id=commit.up_to_snapshot_id,
            load_part=None if part is None or part.is_last else part,
        )


class Checkpoint:
    """Records of one pipeline, or of one backfill of it, created only if absent: the first writer counts.

    Batches are numbered 0, 1, 2, ... without gaps, and a batch is opened only when the one before is committed. So the
    latest is found by looking for single keys, and at most one batch is open. Every method that reads a record raises
    TerminalError where it is damaged, and NewerRecordError where a newer release wrote it.

    Args:
        store: the checkpoint's place.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._records = RecordStore(store)

    @property
    def url(self) -> str:
        """Where the checkpoint stands."""
        return self._store.url

    def backfill(self, backfill_id: str) -> "Checkpoint":
        """The checkpoint of a backfill of this pipeline."""
        return Checkpoint(self._store.child(backfill_prefix(backfill_id)))

    def pipeline(self) -> PipelineRecord | None:
        """What the checkpoint was made for; None before its first batch."""
        return self._records.load(PipelineRecord, PIPELINE)

    def create_pipeline(self, record: PipelineRecord) -> PipelineRecord:
        """Records what the checkpoint is for; returns the record that counts."""
        return self._records.create(record, PIPELINE)

    def latest_batch(self) -> int | None:
        """The highest batch number; None before the first batch. Takes a number of look-ups logarithmic in it."""
        return last_present(self._is_opened)

    def offset(self, batch_number: int) -> OffsetRecord | None:
        """What a batch reads; None when it was never opened."""
        return self._records.load(OffsetRecord, offset_key(batch_number), batch_number=batch_number)

    def create_offset(self, record: OffsetRecord) -> OffsetRecord:
        """Opens a batch; returns the record that counts, which another run may have written.

        Raises:
            OpenBatchError: the batch before is still open.
            CheckpointGapError: the batch before was never opened, or this one was and its record was removed.
            CursorMovedError: the batch does not begin where the one before ended; its changes would come twice.
        """
        number = record.batch_number
        if not self._is_opened(number):
            self._refuse_reopening(number)
            if number > 0:
                self._refuse_another_beginning(record, self._committed_before(number))
        return self._records.create(record, offset_key(number))

    def committed(self, batch_number: int) -> CommitRecord | None:
        """That a batch is done; None while it is open or was never opened."""
        return self._records.load(CommitRecord, commit_key(batch_number), batch_number=batch_number)

    def create_commit(self, record: CommitRecord) -> CommitRecord:
        """Closes a batch and so moves the cursor; returns the record that counts.

        Raises:
            BatchNotOpenError: the batch was never opened, or was opened with another range.
        """
        number = record.batch_number
        offset = self.offset(number)
        if offset is None or _range(offset) != _range(record):
            opened = "it was never opened" if offset is None else f"it was opened {_range(offset)}"
            raise BatchNotOpenError(
                f"batch {number} of {self.url} cannot be committed {_range(record)}: {opened} "
                f"({self._records.url_of(offset_key(number))}); see whether two releases or checkpoints were mixed",
                url=self.url,
                batch_number=number,
            )
        return self._records.create(record, commit_key(number))

    def open_batch(self) -> OffsetRecord | None:
        """The batch that was opened and is not done; a run must resume it."""
        latest = self.latest_batch()
        if latest is None or self.committed(latest) is not None:
            return None
        return self.offset(latest)

    def cursor(self) -> Cursor | None:
        """Where the last committed batch ended; None when none is.

        Raises:
            CheckpointGapError: a batch follows one that is not committed.
        """
        latest = self.latest_batch()
        if latest is None:
            return None
        commit = self.committed(latest)
        if commit is None and latest > 0:
            commit = self._committed_before(latest)
        return None if commit is None else Cursor.of(commit)

    def put_report(self, batch_number: int, report: bytes) -> None:
        """Keeps the report of a batch, in place of an earlier one."""
        self._store.put(report_key(batch_number), report)

    def report(self, batch_number: int) -> bytes | None:
        """The report of a batch; None when there is none."""
        return self._found(report_key(batch_number))

    def put_status(self, status: bytes) -> None:
        """Keeps how the pipeline is doing, in place of what was known before."""
        self._store.put(STATUS, status)

    def status(self) -> bytes | None:
        """How the pipeline was doing; None when nothing says so."""
        return self._found(STATUS)

    def _found(self, key: str) -> bytes | None:
        try:
            return self._store.get(key)
        except KeyMissingError:
            return None

    def _is_opened(self, batch_number: int) -> bool:
        return self._store.size(offset_key(batch_number)) is not None

    def _committed_before(self, number: int) -> CommitRecord:
        """The commit of the batch before, without which a batch can neither be opened nor have been opened."""
        before = number - 1
        commit = self.committed(before)
        if commit is not None:
            return commit
        if self._is_opened(before) and not self._is_opened(number):
            raise OpenBatchError(
                f"batch {number} of {self.url} cannot be opened: batch {before} is open; run again to finish it",
                url=self.url,
                batch_number=number,
                open_batch_number=before,
            )
        key = commit_key(before) if self._is_opened(before) else offset_key(before)
        raise CheckpointGapError(
            f"batch {number} of {self.url} cannot follow batch {before}: {self._records.url_of(key)} is not there, yet "
            "batches are numbered without gaps; see who removed it",
            url=self.url,
            key=key,
        )

    def _refuse_another_beginning(self, record: OffsetRecord, before: CommitRecord) -> None:
        """A batch that loads the table anew begins without a snapshot, so it may follow any other."""
        if record.after_snapshot_id not in (None, before.up_to_snapshot_id):
            raise CursorMovedError(
                f"batch {record.batch_number} of {self.url} was planned after snapshot {record.after_snapshot_id}, but "
                f"batch {before.batch_number} ended at {before.up_to_snapshot_id}: another run was faster; run again",
                url=self.url,
                batch_number=record.batch_number,
            )

    def _refuse_reopening(self, number: int) -> None:
        """Refuses to begin anew where a rule that expires old objects took the first records, or somebody did."""
        is_committed = self._store.size(commit_key(number)) is not None
        has_later = number == 0 and any(True for _ in self._store.list("offsets"))
        if (is_committed or has_later) and not self._is_opened(number):
            key = offset_key(number)
            raise CheckpointGapError(
                f"batch {number} of {self.url} cannot be opened: it was open before, or a later one was, yet "
                f"{self._records.url_of(key)} is gone; see who removed it, and let no rule expire what stands here",
                url=self.url,
                key=key,
            )


def _range(record: OffsetRecord | CommitRecord) -> str:
    return f"after {record.after_snapshot_id} up to {record.up_to_snapshot_id}"
