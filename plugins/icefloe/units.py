"""Quantities, times and ids as text: ``64MiB``, ``30s``, ``2026-11-22T15:49:52.000+00:00``."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = [
    "format_bytes",
    "id_json",
    "is_on",
    "natural",
    "now_text",
    "parse_bytes",
    "parse_seconds",
    "time_of_ms",
    "time_text",
]

_BYTES: Final = {"": 1, "B": 1, "kB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30,
                 "TB": 10**12, "TiB": 2**40}  # fmt: skip
_SECONDS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TOO_MANY_DAYS: Final = 100_000
_ON: Final = frozenset({"1", "true", "on", "yes", "y"})
_OFF: Final = frozenset({"0", "false", "off", "no", "n"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NATURAL: Final = re.compile("[0-9]{1,19}")
_QUANTITY: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def natural(text: str) -> int | None:
    """A number from 0 to 2^63 - 1 in plain digits; None for any other text.

    >>> natural("007"), natural("-1"), natural("²"), natural("9" * 19)
    (7, None, None, None)
    """
    number = int(text) if _NATURAL.fullmatch(text) else -1
    return number if 0 <= number < 2**63 else None


def parse_bytes(text: str | int) -> int:
    """A size in bytes.

    >>> parse_bytes("64MiB"), parse_bytes("1.5 kB"), parse_bytes(10)
    (67108864, 1500, 10)

    `ValueError` if the text is not a number and one of the known units.
    """
    return round(_quantity(str(text), _BYTES, "a size such as 64MiB or 1GB"))


def parse_seconds(text: str | float) -> float:
    """A duration in seconds.

    >>> parse_seconds("30s"), parse_seconds("1.5h"), parse_seconds(2)
    (30.0, 5400.0, 2.0)

    `ValueError` if the text is not a number and one of the known units, or is 100,000 days or more.
    """
    seconds = _quantity(str(text), _SECONDS, "a duration such as 30s, 5m or 1h")
    if seconds >= _TOO_MANY_DAYS * 86400:
        raise ValueError(f"the duration {str(text)[:20]!r} is too long: expected less than {_TOO_MANY_DAYS}d")
    return seconds


def is_on(value: object, *, otherwise: bool) -> bool:
    """True if a switch is on, as text too: the extra of a connection that is a URI holds nothing else.

    The words are obstore's, in any case.

    Args:
        otherwise: the answer if there is no value, or another word.

    >>> is_on("false", otherwise=True), is_on(" Yes", otherwise=False), is_on(None, otherwise=True)
    (False, True, True)
    """
    word = str(value).strip().lower()
    return word in _ON if otherwise is False else word not in _OFF


def format_bytes(size_bytes: float) -> str:
    """A size for people, with a binary unit.

    >>> format_bytes(0), format_bytes(1536), format_bytes(67108864)
    ('0 B', '1.5 KiB', '64.0 MiB')
    """
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def now_text() -> str:
    """The time of this machine, ISO 8601 in UTC, to the millisecond."""
    return time_text(datetime.now(UTC))


def time_text(time: datetime) -> str:
    """A time with its offset, ISO 8601, to the millisecond.

    >>> time_text(datetime(2026, 1, 2, tzinfo=UTC))
    '2026-01-02T00:00:00.000+00:00'
    """
    return time.isoformat(timespec="milliseconds")


def time_of_ms(timestamp_ms: int) -> str:
    """A time in milliseconds since the epoch, as `time_text`; a writer's clock may be beyond every year.

    >>> time_of_ms(1_700_000_000_123)
    '2023-11-14T22:13:20.123+00:00'
    >>> time_of_ms(10**15), time_of_ms(-(10**18))
    ('9999-12-31T23:59:59.999+00:00', '0001-01-01T00:00:00.000+00:00')
    """
    try:
        return time_text(_EPOCH + timedelta(milliseconds=timestamp_ms))
    except OverflowError:
        return time_text((datetime.max if timestamp_ms > 0 else datetime.min).replace(tzinfo=UTC))


def id_json(snapshot_id: int | None) -> str | None:
    """A snapshot id as text, because browsers and other programs round numbers above 2^53.

    >>> id_json(4_611_686_018_427_387_905)
    '4611686018427387905'
    """
    return None if snapshot_id is None else str(snapshot_id)


def _quantity(text: str, units: Mapping[str, float], expected: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in units:
        raise ValueError(f"{text!r} is not {expected}")
    return float(match[1]) * units[match[2]]
