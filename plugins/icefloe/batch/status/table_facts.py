"""The head of a branch, and the lag of a cursor behind it, from the metadata of the table alone."""

from dataclasses import dataclass

from icefloe.batch.status.pipeline_status import Expiry
from icefloe.iceberg.history.history import History
from icefloe.iceberg.history.lag import lag, next_expiry_ms
from icefloe.iceberg.table import Table
from icefloe.units import time_of_ms

__all__ = ["TableFacts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """The facts of a status about the table; see the fields of the same names in `PipelineStatus`."""

    cursor_timestamp: str | None
    head_snapshot_id: int | None
    head_timestamp: str | None
    lag_snapshots: int | None
    lag_rows: int | None
    waiting_since: str | None
    next_expiry: Expiry | None

    @classmethod
    def of(
        cls,
        table: Table,
        *,
        branch: str,
        cursor_snapshot_id: int | None,
        cursor_timestamp: str | None,
        is_loading: bool = False,
    ) -> "TableFacts":
        """The facts as the table was loaded; reads nothing.

        Args:
            table: as loaded.
            branch: branch that the pipeline follows.
            cursor_snapshot_id: last delivered snapshot.
            cursor_timestamp: its recorded time; None if that is not known. A snapshot of another time is another one,
                to which its writer gave the same id.
            is_loading: True if that snapshot is delivered only in part.

        Raises:
            UnknownBranchError: there is no such branch.
        """
        history = History.of(table)
        head = history.head(branch)
        delivered = None if cursor_snapshot_id is None else history.snapshots.get(cursor_snapshot_id)
        if delivered is not None and cursor_timestamp not in (None, time_of_ms(delivered.timestamp_ms)):
            cursor_snapshot_id = -delivered.snapshot_id
        elif delivered is not None:
            cursor_timestamp = time_of_ms(delivered.timestamp_ms)
        behind = lag(history, branch=branch, cursor_snapshot_id=cursor_snapshot_id, is_loading=is_loading)
        return cls(
            cursor_timestamp=cursor_timestamp,
            head_snapshot_id=None if head is None else head.snapshot_id,
            head_timestamp=None if head is None else time_of_ms(head.timestamp_ms),
            lag_snapshots=behind.snapshots,
            lag_rows=behind.rows,
            waiting_since=None if behind.since_timestamp_ms is None else time_of_ms(behind.since_timestamp_ms),
            next_expiry=_expiry(table, cursor_snapshot_id),
        )


def _expiry(table: Table, cursor_snapshot_id: int | None) -> Expiry | None:
    if cursor_snapshot_id is None:
        return None
    at_ms = next_expiry_ms(table.metadata, cursor_snapshot_id)
    return None if at_ms is None else Expiry(snapshot_id=cursor_snapshot_id, at=time_of_ms(at_ms))
