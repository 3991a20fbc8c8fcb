"""Reading and creating single records."""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from icefloe.checkpoint.records import CommitRecord, OffsetRecord, OwnerRecord, PipelineRecord
from icefloe.documents import dump_document, load_document
from icefloe.errors import TerminalError, UsageError
from icefloe.storage.store import Store, join_url

__all__ = ["backfill_prefix"]

PIPELINE: Final = "pipeline.json"
STATUS: Final = "status.json"
BACKFILLS: Final = "backfills"

_OFFSET: Final = re.compile(r"offsets/([0-9]+)\.json")
_BACKFILL_ID: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def offset_key(batch_number: int) -> str:
    """Key of an offset record.

    >>> offset_key(7)
    'offsets/7.json'
    """
    return f"offsets/{batch_number}.json"


def commit_key(batch_number: int) -> str:
    """Key of a commit record.

    >>> commit_key(7)
    'commits/7.json'
    """
    return f"commits/{batch_number}.json"


def has_open_batch(keys: Collection[str]) -> bool:
    """True if one of the batches with these keys was opened and is not done.

    >>> has_open_batch({"offsets/0.json", "commits/0.json", "offsets/1.json"}), has_open_batch({"owners/0.json"})
    (True, False)
    """
    numbers = [found[1] for key in keys if (found := _OFFSET.fullmatch(key))]
    return any(commit_key(int(number)) not in keys for number in numbers)


def report_key(batch_number: int) -> str:
    """Key of a report.

    >>> report_key(7)
    'reports/7.json'
    """
    return f"reports/{batch_number}.json"


def owner_key(number: int) -> str:
    """Key of an owner record.

    >>> owner_key(0)
    'owners/0.json'
    """
    return f"owners/{number}.json"


def backfill_prefix(backfill_id: str) -> str:
    """Key prefix of a backfill's checkpoint.

    >>> backfill_prefix("start-42-1a2b")
    'backfills/start-42-1a2b'

    Raises:
        UsageError: the id could not be the name of a folder in every store.
    """
    if not _BACKFILL_ID.fullmatch(backfill_id):
        raise UsageError(
            f"{backfill_id!r} cannot be the id of a backfill: expected letters, digits, '_', '-', '.', not '.' first",
        )
    return f"{BACKFILLS}/{backfill_id}"


Record = TypeVar("Record", PipelineRecord, OwnerRecord, OffsetRecord, CommitRecord)

_MOST_RECORDS: Final = 2**32
RESTORE: Final = (
    "restore it from the store's versions or a backup and let no rule expire its objects, or start again under "
    "another name and sink.path"
)


class RecordStore:
    """Records under keys, each created once by whoever comes first."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def url_of(self, key: str) -> str:
        return join_url(self.store.url, key)

    def is_there(self, key: str) -> bool:
        """True if a record was created; it is not read."""
        return self.store.size(key) is not None

    def last_number(self, key_of: Callable[[int], str]) -> int | None:
        """The number of the newest record; None if there is none. Records are numbered 0, 1, 2, ..."""

        def is_present(number: int) -> bool:
            if number > _MOST_RECORDS:
                raise TerminalError(
                    f"{self.store.url} seems to hold more than {_MOST_RECORDS:,} records: its store answers that every "
                    "object exists, as a login page or a parked address does; correct the endpoint of the store",
                    url=self.store.url,
                )
            return self.is_there(key_of(number))

        return last_present(is_present)

    def load(self, kind: type[Record], key: str, *, number: int | None = None) -> Record | None:
        """A record; None if there is none. `TerminalError` if it is damaged, or has another number than its key."""
        data = self.store.find(key)
        if data is None:
            return None
        record = self._read(kind, data, key)
        found = _number(record)
        if found != number:
            raise self._lost(key, f"has the number {found}: it was copied there or damaged")
        return record

    def known(self, kind: type[Record], key: str, *, number: int) -> Record:
        """A record that was created; `TerminalError` if it is gone."""
        record = self.load(kind, key, number=number)
        if record is None:
            raise self._lost(key, f"has disappeared; {RESTORE}")
        return record

    def create(self, record: Record, key: str) -> Record:
        """Creates a record, or returns the one that counts; `TerminalError` if another one was there and is gone."""
        # Read back before it is stored: a record never changes, so one that no reader accepts would stop the pipeline
        # for good. And the run that creates a record goes on with the very values that a run that adopts it has.
        data = dump_document(record)
        as_read = self._read(type(record), data, key)
        if self.store.create(key, data):
            return as_read
        winner = self.load(type(record), key, number=_number(record))
        if winner is None:
            raise self._lost(key, "was removed as this run was about to create it; run again")
        return winner

    def _read(self, kind: type[Record], data: bytes, key: str) -> Record:
        return load_document(kind, data, what=f"the checkpoint record {self.url_of(key)}")

    def _lost(self, key: str, fault: str) -> TerminalError:
        return TerminalError(f"the checkpoint record {self.url_of(key)} {fault}", url=self.store.url, key=key)


def _number(record: PipelineRecord | OwnerRecord | OffsetRecord | CommitRecord) -> int | None:
    match record:
        case PipelineRecord():
            return None
        case OwnerRecord():
            return record.number
    return record.batch_number


def last_present(is_present: Callable[[int], bool]) -> int | None:
    """The highest number of a sequence 0, 1, 2, ... without gaps; None if not even 0 exists.

    Asks at most 2 log2(n) + 3 times if n numbers exist: doubling steps, then halving ones.

    >>> last_present(lambda number: number < 1000)
    999
    """
    if not is_present(0):
        return None
    # Of 0 to 5:  1 yes, 3 yes, 7 no, then between them 5 yes, 6 no. A listing would read every name, a thousand for
    # each request, and the number of batches only grows. Right only because no number is ever missing in between.
    present, absent = 0, 1
    while is_present(absent):
        present, absent = absent, 2 * absent + 1
    between = range(present + 1, absent)
    return present + bisect_left(between, True, key=lambda number: not is_present(number))
