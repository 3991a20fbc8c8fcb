"""A requested range, as snapshot ids or timestamps, and the snapshots that it covers."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from numbers import Integral

from icefloe.errors import UsageError
from icefloe.iceberg.history.first_snapshot import snapshot_at
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.scan.steps import SnapshotRange, plan_range
from icefloe.iceberg.table import Table, table_uuid
from icefloe.pipeline.option_values import CommitGroupsOption, RollbackOption
from icefloe.pipeline.recorded_configuration import JSON

__all__ = ["RequestedRange", "plan_request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedRange:
    """The bounds of a backfill as given: per end a snapshot id, a timestamp with an offset, or neither.

    Attributes:
        after_snapshot_id: exclusive; without it and ``after_timestamp``: from the start of the table's history.
        up_to_snapshot_id: inclusive; without it and ``up_to_timestamp``: the head of the branch.
        after_timestamp: the range begins after the snapshot that was current then.
        up_to_timestamp: it ends with the snapshot that was current then.
    """

    after_snapshot_id: int | None = None
    up_to_snapshot_id: int | None = None
    after_timestamp: datetime | None = None
    up_to_timestamp: datetime | None = None

    def __post_init__(self) -> None:
        """Refuses both forms for one end, other types, timestamps without an offset, and ends before beginnings."""
        for end in ("after", "up_to"):
            snapshot_id, timestamp = getattr(self, f"{end}_snapshot_id"), getattr(self, f"{end}_timestamp")
            if snapshot_id is not None and timestamp is not None:
                raise UsageError(f"{end}_snapshot_id and {end}_timestamp were both given: give one of them")
            if snapshot_id is not None and (isinstance(snapshot_id, bool) or not isinstance(snapshot_id, Integral)):
                raise UsageError(f"{end}_snapshot_id must be an int, not {snapshot_id!r}")
            if timestamp is not None and not isinstance(timestamp, datetime):
                raise UsageError(f"{end}_timestamp must be a datetime with an offset, not {timestamp!r}")
            if timestamp is not None and timestamp.tzinfo is None:
                raise UsageError(f"{end}_timestamp {timestamp} has no offset: end it with Z or +HH:MM")
        if self.after_timestamp is not None and self.up_to_timestamp is not None:
            _refuse_reversed(self.after_timestamp, self.up_to_timestamp)

    @property
    def has_end(self) -> bool:
        """False if the range ends at the head of the branch, wherever that is."""
        return self.up_to_snapshot_id is not None or self.up_to_timestamp is not None


def _refuse_reversed(after: datetime, up_to: datetime) -> None:
    if up_to < after:
        raise UsageError(
            f"the range ends at {up_to.isoformat()}, before it begins at {after.isoformat()}: exchange after_timestamp "
            "and up_to_timestamp"
        )


def start_of(table: LoadedTable, request: RequestedRange, *, branch: str) -> int | None:
    """The snapshot after which a requested range begins; None: from the start of the table's history."""
    if request.after_timestamp is None:
        return request.after_snapshot_id
    return snapshot_at(table, request.after_timestamp, branch=branch)


def plan_request(
    table: LoadedTable,
    request: RequestedRange,
    *,
    branch: str,
    on_rollback: RollbackOption,
    commit_groups: CommitGroupsOption,
) -> SnapshotRange:
    """The steps of a requested range; see `plan_range` for its errors."""
    after, up_to = start_of(table, request, branch=branch), request.up_to_snapshot_id
    if request.up_to_timestamp is not None:
        up_to = snapshot_at(table, request.up_to_timestamp, branch=branch)
        if up_to is None:
            return SnapshotRange(after_snapshot_id=after, up_to_snapshot_id=after)
    return plan_range(
        table,
        branch=branch,
        after_snapshot_id=after,
        up_to_snapshot_id=up_to,
        on_rollback=on_rollback,
        commit_groups=commit_groups,
    )


def backfill_id(
    table: Table, configuration: Mapping[str, JSON], after_snapshot_id: int | None, up_to_snapshot_id: int | str | None
) -> str:
    """Id of a backfill. It follows from table, range and result configuration, so that a rerun finds its batch."""
    meaning = json.dumps([table_uuid(table), configuration], sort_keys=True)
    digest = hashlib.sha256(meaning.encode()).hexdigest()[:8]
    after = "start" if after_snapshot_id is None else after_snapshot_id
    return f"{after}-{up_to_snapshot_id}-{digest}"
