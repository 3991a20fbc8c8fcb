"""Cron expressions, checked without Airflow so that a typing error shows before a DAG is made."""

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["schedule_fault"]

_PRESETS: Final = ("@continuous", "@once", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_ITEM: Final = re.compile(r"(\*|[A-Za-z0-9]+)(?:-([A-Za-z0-9]+))?(?:/([0-9]+))?")


@dataclass(frozen=True, slots=True)
class _Field:
    """One field: its inclusive bounds, the names of its numbers, and what else it takes, as a pattern."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    special: str = ""


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31, special=r"\?|l"),
    _Field("month", 1, 12, names=_MONTHS),
    _Field("day of week", 0, 7, names=_DAYS, special=rf"\?|l[0-7]|([0-7]|{'|'.join(_DAYS)})#[1-5]"),
    _Field("second", 0, 59),
)


def schedule_fault(text: str) -> str | None:
    """What is wrong with a schedule, as the end of a sentence that begins with its key; None where nothing is.

    >>> schedule_fault("*/5 8-17 * * mon-fri"), schedule_fault("@continuous")
    (None, None)
    >>> schedule_fault("61 * * * *")
    "has '61' for the minute, which takes 0 to 59"
    """
    if text.startswith("@"):
        return None if text in _PRESETS else f"must be one of {', '.join(_PRESETS)}, not '{text}'"
    parts = text.split()
    if len(parts) not in (5, 6):
        return (
            'must be "@continuous", a cron expression of 5 or 6 fields such as "0 * * * *", or {asset: NAME}, '
            f"not '{text}'"
        )
    faults = (_field_fault(part, field) for part, field in zip(parts, _FIELDS, strict=False))
    return next((fault for fault in faults if fault), None)


def _field_fault(text: str, field: _Field) -> str | None:
    if all(_is_item(item, field) for item in text.split(",")):
        return None
    names = f" or {field.names[0]} to {field.names[-1]}" if field.names else ""
    return f"has '{text}' for the {field.name}, which takes {field.low} to {field.high}{names}"


def _is_item(text: str, field: _Field) -> bool:
    if field.special and re.fullmatch(field.special, text.lower()):
        return True
    match = _ITEM.fullmatch(text)
    if match is None or (match[3] is not None and int(match[3]) == 0):
        return False
    if match[1] == "*":
        return match[2] is None
    return all(_is_in_bounds(bound, field) for bound in (match[1], match[2]) if bound is not None)


def _is_in_bounds(text: str, field: _Field) -> bool:
    return text.lower() in field.names or (text.isdecimal() and field.low <= int(text) <= field.high)
