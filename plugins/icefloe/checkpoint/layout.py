"""Where the records of a checkpoint stand, laid out as in Spark Structured Streaming."""

from typing import Final

__all__ = ["PIPELINE", "backfill_prefix", "commit_key", "offset_key", "report_key"]

PIPELINE: Final = "pipeline.json"


def offset_key(batch_number: int) -> str:
    """What a batch reads.

    >>> offset_key(7)
    'offsets/7.json'
    """
    return f"offsets/{batch_number}.json"


def commit_key(batch_number: int) -> str:
    """That a batch is done."""
    return f"commits/{batch_number}.json"


def report_key(batch_number: int) -> str:
    """What a batch did."""
    return f"reports/{batch_number}.json"


def backfill_prefix(backfill_id: str) -> str:
    """The checkpoint of a backfill."""
    return f"backfills/{backfill_id}"
