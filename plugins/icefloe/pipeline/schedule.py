"""Schedules, checked before a DAG is made of them, so that a typing error is named with its line."""

from typing import Final

_PRESETS: Final = ("@continuous", "@once", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
_FIELDS: Final = (
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of month", "1 to 31"),
    ("month", "1 to 12 or jan to dec"),
    ("day of week", "0 to 7 or sun to sat"),
    ("second", "0 to 59"),
)
_ANY_TIME: Final = 0.0


def schedule_fault(text: str) -> str | None:
    """Fault of a schedule as the end of a sentence that begins with its key; None if there is none.

    >>> schedule_fault("*/5 8-17 * * mon-fri"), schedule_fault("@continuous")
    (None, None)
    >>> schedule_fault("61 * * * *")
    "has '61' for the minute, which takes 0 to 59"
    """
    if text.startswith("@"):
        return None if text in _PRESETS else f"must be one of {', '.join(_PRESETS)}, not '{text}'"
    from croniter import (
        CroniterBadDateError,
        croniter,
    )  # a tenth of a second, which commands that read no schedule need not pay

    parts = text.split()
    if len(parts) not in (5, 6):
        return (
            'must be "@continuous", a cron expression of 5 or 6 fields such as "0 * * * *", or {asset: NAME}, '
            f"not '{text}'"
        )
    for place, part in enumerate(parts):
        # Airflow reads cron expressions by this library, which does not say which field is wrong: each is tried alone.
        # Its R is a random number, another one in each process that reads the file.
        alone = " ".join(part if each == place else "*" for each in range(len(parts)))
        if part[0] in "Rr" or not croniter.is_valid(alone):
            name, takes = _FIELDS[place]
            return f"has '{part}' for the {name}, which takes {takes}"
    if not croniter.is_valid(text):
        return f"'{text}' is no cron expression"
    try:
        croniter(text, _ANY_TIME).get_next()
    except CroniterBadDateError:
        return f"has '{text}', which never comes: no year has such a day"
    return None
