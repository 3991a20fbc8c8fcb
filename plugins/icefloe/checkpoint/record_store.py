"""Reading and creating single records, whatever they say."""

from icefloe.checkpoint.records import CommitRecord, OffsetRecord, OwnerRecord, PipelineRecord, Record, load_record
from icefloe.documents import dump_document
from icefloe.errors import TerminalError
from icefloe.storage.keys import join_url
from icefloe.storage.store import KeyMissingError, Store

__all__ = ["CheckpointGapError", "RecordStore"]


class CheckpointGapError(TerminalError):
    """A record that must be there is gone. Facts: ``url`` of the checkpoint, ``key``."""


class RecordStore:
    """Records under keys, each created once by whoever comes first.

    Args:
        store: where they stand.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    def url_of(self, key: str) -> str:
        """The URL of a record."""
        return join_url(self.store.url, key)

    def load(self, kind: type[Record], key: str, *, batch_number: int | None = None) -> Record | None:
        """A record; None where there is none.

        Raises:
            NewerRecordError: its version is one this release does not know yet.
            TerminalError: it is damaged, or of another batch than the one whose name it bears.
        """
        try:
            data = self.store.get(key)
        except KeyMissingError:
            return None
        record = load_record(kind, data, url=self.url_of(key))
        found = _batch_number(record)
        if found != batch_number:
            raise TerminalError(
                f"the checkpoint record {self.url_of(key)} is of batch {found}: it was copied there or damaged",
                url=self.store.url,
                key=key,
            )
        return record

    def create(self, record: Record, key: str) -> Record:
        """Creates a record unless there is one; returns the one that stands there, as every reader sees it.

        Raises:
            CheckpointGapError: another one stood there and was removed.
        """
        data = dump_document(record)
        as_read = load_record(type(record), data, url=self.url_of(key))
        if self.store.create(key, data):
            return as_read
        winner = self.load(type(record), key, batch_number=_batch_number(record))
        if winner is None:
            raise CheckpointGapError(
                f"the checkpoint record {self.url_of(key)} was removed as this run was about to create it; run again",
                url=self.store.url,
                key=key,
            )
        return winner


def _batch_number(record: PipelineRecord | OwnerRecord | OffsetRecord | CommitRecord) -> int | None:
    return None if isinstance(record, (PipelineRecord, OwnerRecord)) else record.batch_number
