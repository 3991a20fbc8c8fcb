"""Ids, times and durations, as people and programs read them; times are always in UTC."""


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


def id_text(snapshot_id: int | None) -> str:
    """A snapshot id for a table; a dash if there is none."""
    return "-" if snapshot_id is None else str(snapshot_id)
