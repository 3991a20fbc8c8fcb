"""The order of records: a batch begins where the one before ended, and is closed as it was opened."""

from icefloe.checkpoint.cursor import Cursor
from icefloe.checkpoint.records import CommitRecord, OffsetRecord
from icefloe.errors import TerminalError, TransientError


class OpenBatchError(TransientError):
    """A batch cannot be opened while another is open."""

    url: str
    batch_number: int
    open_batch_number: int


class BatchNotOpenError(TerminalError):
    """A batch that was not opened, or was opened differently, cannot be committed."""

    url: str
    batch_number: int


class CursorMovedError(TransientError):
    """A batch does not begin at the end of the batch before it."""

    url: str
    batch_number: int


def refuse_another_beginning(record: OffsetRecord, before: CommitRecord, *, url: str) -> None:
    """Stops a batch that was not decided from the end of the batch before.

    Args:
        record: the batch that is to be opened.
        before: end of the batch before it.
        url: of the checkpoint.

    Raises:
        CursorMovedError: the batch before ended elsewhere.
    """
    ended = before.end
    if record.follows != ended:
        raise CursorMovedError(
            f"batch {record.batch_number} of {url} was planned to follow {_end(record.follows)}, but batch "
            f"{before.batch_number} ended at {_end(ended)}: another run was faster; run again",
            url=url,
            batch_number=record.batch_number,
        )


def refuse_another_range(record: CommitRecord, offset: OffsetRecord | None, *, url: str, offset_url: str) -> None:
    """Stops the end of a batch that was not opened, or was opened with another range or checkpoint.

    Args:
        record: the end that is to be recorded.
        offset: the batch as it was opened; None if it was not.
        url: of the checkpoint.
        offset_url: of the record of ``offset``.

    Raises:
        BatchNotOpenError: the batch was never opened, or was opened otherwise.
    """
    number = record.batch_number
    # Batch 3 of the checkpoint that was deleted is not batch 3 of the one that was made since under the same URL.
    if offset is not None and offset.checkpoint_id != record.checkpoint_id:
        raise BatchNotOpenError(
            f"batch {number} of {url} was opened with the checkpoint {offset.checkpoint_id}, and this run "
            f"delivered it with {record.checkpoint_id}: the checkpoint was deleted and made again meanwhile, so "
            "this run has nothing to commit; start the pipeline again",
            url=url,
            batch_number=number,
        )
    if offset is None or _range(offset) != _range(record):
        opened = "it was never opened" if offset is None else f"it was opened {_range(offset)}"
        raise BatchNotOpenError(
            f"batch {number} of {url} cannot be committed {_range(record)}: {opened} "
            f"({offset_url}); see whether two releases or checkpoints were mixed",
            url=url,
            batch_number=number,
        )


def _range(record: OffsetRecord | CommitRecord) -> str:
    part = record.spec.load_part if isinstance(record, OffsetRecord) else record.load_part
    files = "" if part is None else f", {part}"
    return f"after {record.after_snapshot_id} up to {record.up_to_snapshot_id}{files}"


def _end(cursor: Cursor | None) -> str:
    if cursor is None:
        return "nothing"
    part = "" if cursor.load_part is None else f", {cursor.load_part} of its load"
    return f"snapshot {cursor.snapshot_id}{part}"
