"""Ids, times and durations, as people and programs read them; times are always in UTC."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_of_us(timestamp_us: int) -> str:
    """A time given in microseconds since the epoch, to the millisecond.

    >>> time_of_us(1_700_000_000_123_456)
    '2023-11-14T22:13:20.123+00:00'
    """
    return (_EPOCH + timedelta(microseconds=timestamp_us)).isoformat(timespec="milliseconds")


def seconds_text(seconds: float | None) -> str:
    """A duration for people; a dash if it is not known.

    >>> seconds_text(0.0421), seconds_text(4.2), seconds_text(75), seconds_text(7325), seconds_text(None)
    ('42 ms', '4.20 s', '1 min 15 s', '2 h 2 min', '-')
    """
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {rest} s"


def batch_text(batch_number: int, backfill_id: str | None) -> str:
    """A batch of a pipeline or of a backfill.

    >>> batch_text(0, "start-7-0a1b2c3d")
    '0 of backfill start-7-0a1b2c3d'
    """
    return str(batch_number) if backfill_id is None else f"{batch_number} of backfill {backfill_id}"


def id_json(snapshot_id: int | None) -> str | None:
    """A snapshot id as text, because programs round numbers above 2^53.

    >>> id_json(4_611_686_018_427_387_905)
    '4611686018427387905'
    """
    return None if snapshot_id is None else str(snapshot_id)


def id_text(snapshot_id: int | None) -> str:
    """A snapshot id for a table; a dash if there is none."""
    return "-" if snapshot_id is None else str(snapshot_id)
