"""Times for people and programs, always in UTC."""

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["time_of_us"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_of_us(timestamp_us: int) -> str:
    """A time given in microseconds since the epoch, to the millisecond.

    >>> time_of_us(1_700_000_000_123_456)
    '2023-11-14T22:13:20.123+00:00'
    """
    return (_EPOCH + timedelta(microseconds=timestamp_us)).isoformat(timespec="milliseconds")
