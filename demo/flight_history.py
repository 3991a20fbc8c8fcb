"""A table in a catalog of its own that has every version of every flight."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from demo.flights_table import TableChange
from demo.mirror import Mirror
from demo.progress import Progress

__all__ = ["FlightHistory"]

_SHOWN = ("flight_id", "carrier", "arr_delay", "valid_from", "valid_to")


class FlightHistory(Mirror):
    """The catalog ``copies`` with the history ``copies.flights``."""

    pipeline = "flights_history.yaml"
    sees_each_state: ClassVar[bool] = True
    noun: ClassVar[str] = "history"
    current = "is_current = true"

    def show(self, progress: Progress, changes: Sequence[TableChange], rows: int) -> list[str]:
        """Asks what a flight whose delay was corrected was, right before and after."""
        wrong = super().show(progress, changes, rows)
        corrected = self._rows("month = 3 and carrier = 'US' and is_current = false")[0]
        at = corrected["valid_to"]
        flight = f"flight_id = {corrected['flight_id']}"
        progress.say(f"\nWhat was flight {corrected['flight_id']}, whose delay was corrected at {at}?\n")
        for instant in (at - timedelta(microseconds=1), at):
            time = instant.isoformat()
            valid = f"valid_from <= '{time}' and (valid_to is null or valid_to > '{time}')"
            [version] = self._rows(f"{flight} and {valid}")
            progress.say(f"  at {time}: arr_delay {version['arr_delay']}, valid since {version['valid_from']}")
            wrong += [] if version["valid_from"] <= instant < (version["valid_to"] or _LATEST) else [str(version)]
        return wrong

    def _rows(self, row_filter: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table().scan(row_filter, selected_fields=_SHOWN).to_arrow().to_pylist()
        return found


_LATEST = datetime.max.replace(tzinfo=UTC)
