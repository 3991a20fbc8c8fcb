"""The form of a backfill, and the range that it gives."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Param

from icefloe.errors import UsageError
from icefloe.units import natural

if TYPE_CHECKING:
    from icefloe.batch.open.requested_range import RequestedRange


_SNAPSHOT_IDS: Final = {
    "after_snapshot_id": "Begin after this snapshot (exclusive). Empty: at the start of the history. At least one of "
    "the four fields is needed.",
    "up_to_snapshot_id": "End with this snapshot (inclusive). Empty: with the head of the branch.",
}
_TIMESTAMPS: Final = {
    "after_timestamp": "Instead of after_snapshot_id: begin after the snapshot current at this time.",
    "up_to_timestamp": "Instead of up_to_snapshot_id: end with the snapshot current at this time.",
}
_KEYS: Final = (*_SNAPSHOT_IDS, *_TIMESTAMPS)
_DIGITS: Final = r"^[0-9]{1,19}$"
_WITH_OFFSET: Final = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})$"


def backfill_params() -> dict[str, Param]:
    """The fields of the form; all are optional, `backfill_range` checks them together.

    Snapshot ids are strings, because the form and the API round integers above 2^53.
    """
    params = {key: _optional(description, pattern=_DIGITS) for key, description in _SNAPSHOT_IDS.items()}
    for key, description in _TIMESTAMPS.items():
        params[key] = _optional(description, format="date-time", pattern=_WITH_OFFSET)
    return params


def backfill_range(conf: Mapping[str, Any]) -> "RequestedRange":
    """The range a run was started with.

    Args:
        conf: the run's configuration; empty values count as not given.

    Raises:
        UsageError: an unknown key, a value of a wrong form, both forms for one end, or no bound at all.
    """
    from icefloe.batch.open.requested_range import RequestedRange

    refuse_configuration(conf, known=_KEYS, instead=f"a backfill takes {', '.join(_KEYS)}")
    given = {key: value for key, value in conf.items() if value not in (None, "")}
    if not given:
        raise UsageError(f"a backfill needs a range: give at least one of {', '.join(_KEYS)}")
    bounds: dict[str, Any] = {key: _snapshot_id(key, value) for key, value in given.items() if key in _SNAPSHOT_IDS}
    bounds |= {key: _timestamp(key, value) for key, value in given.items() if key in _TIMESTAMPS}
    return RequestedRange(**bounds)


def refuse_configuration(conf: Mapping[str, object], *, known: tuple[str, ...] = (), instead: str) -> None:
    """Refuses unknown keys in a run's configuration, which Airflow accepts silently.

    Raises:
        UsageError: a key that is not among ``known``.
    """
    unknown = sorted(set(conf) - set(known))
    if unknown:
        raise UsageError(f"the run's configuration has the unknown key {unknown[0]!r}: {instead}", keys=tuple(unknown))


def _snapshot_id(key: str, value: object) -> int:
    snapshot_id = natural(value) if isinstance(value, str) else None
    if snapshot_id is not None:
        return snapshot_id
    raise UsageError(f"{key} is {value!r}, expected a snapshot id as a string of digits", key=key)


def _timestamp(key: str, value: Any) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        example = "2013-02-01T00:00:00Z"
        raise UsageError(f"{key} is {value!r}, expected a date and time such as {example}", key=key) from None


def _optional(description: str, **schema: str) -> Param:
    return Param(None, description=description, type=["null", "string"], **schema)
