"""Keys of the records of a checkpoint, laid out as in Spark Structured Streaming."""

import re
from collections.abc import Collection
from typing import Final

from icefloe.errors import UsageError

__all__ = ["backfill_prefix", "report_key"]

PIPELINE: Final = "pipeline.json"
STATUS: Final = "status.json"
BACKFILLS: Final = "backfills"

_OFFSET: Final = re.compile(r"offsets/([0-9]+)\.json")
_BACKFILL_ID: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def offset_key(batch_number: int) -> str:
    """Key of a batch's offset record.

    >>> offset_key(7)
    'offsets/7.json'
    """
    return f"offsets/{batch_number}.json"


def commit_key(batch_number: int) -> str:
    """Key of a batch's commit record.

    >>> commit_key(7)
    'commits/7.json'
    """
    return f"commits/{batch_number}.json"


def has_open_batch(keys: Collection[str]) -> bool:
    """True if one of the batches whose keys these are was opened and is not done.

    >>> has_open_batch({"offsets/0.json", "commits/0.json", "offsets/1.json"}), has_open_batch({"owners/0.json"})
    (True, False)
    """
    numbers = [found[1] for key in keys if (found := _OFFSET.fullmatch(key))]
    return any(commit_key(int(number)) not in keys for number in numbers)


def report_key(batch_number: int) -> str:
    """Key of a batch's report.

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
    """Key prefix of the checkpoint of a backfill.

    >>> backfill_prefix("start-42-1a2b")
    'backfills/start-42-1a2b'

    Raises:
        UsageError: the id could not be the name of a folder in every store.
    """
    if not _BACKFILL_ID.fullmatch(backfill_id):
        raise UsageError(
            f"{backfill_id!r} cannot be the id of a backfill: expected letters, digits, '_', '-', '.', not '.' first",
            backfill_id=backfill_id,
        )
    return f"{BACKFILLS}/{backfill_id}"
