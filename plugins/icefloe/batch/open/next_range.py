"""The snapshots that a pipeline's next batch covers."""

import hashlib
import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from numbers import Integral
from typing import Literal

from icefloe.checkpoint.records import Cursor
from icefloe.errors import UsageError
from icefloe.iceberg.history.history import ExpiredHistoryError, History, NotAnAncestorError
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.passage import Passage
from icefloe.iceberg.history.pins import PipelinePins
from icefloe.iceberg.history.published import BranchLog
from icefloe.iceberg.scan.steps import SnapshotRange
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.settings import CommitGroupsOption, RollbackOption

__all__ = ["RequestedRange", "plan_request"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedRange:
    """The bounds of a backfill: per end a snapshot id, a timestamp with an offset, or neither.

    Attributes:
        after_snapshot_id: exclusive; without either start: from the start of the table's history.
        up_to_snapshot_id: inclusive; without either end: the head of the branch.
        after_timestamp: after the snapshot that was current then.
        up_to_timestamp: the snapshot that was current then.
    """

    after_snapshot_id: int | None = None
    up_to_snapshot_id: int | None = None
    after_timestamp: datetime | None = None
    up_to_timestamp: datetime | None = None

    def __post_init__(self) -> None:
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
        after, up_to = self.after_timestamp, self.up_to_timestamp
        if after is not None and up_to is not None and up_to < after:
            raise UsageError(
                f"the range ends at {up_to.isoformat()}, before it begins at {after.isoformat()}: exchange "
                "after_timestamp and up_to_timestamp"
            )


def start_of(table: LoadedTable, request: RequestedRange, *, branch: str) -> int | None:
    """The snapshot after which a request begins; None: from the start of history."""
    if request.after_timestamp is None:
        return request.after_snapshot_id
    return table.snapshot_at(request.after_timestamp, branch=branch)


def plan_request(
    table: LoadedTable,
    request: RequestedRange,
    *,
    branch: str,
    on_rollback: RollbackOption,
    commit_groups: CommitGroupsOption,
    follows_log: bool = False,
) -> SnapshotRange:
    """The steps of a request; see `Passage.find` and `BranchLog.passage` for its errors."""
    after, up_to = start_of(table, request, branch=branch), request.up_to_snapshot_id
    if request.up_to_timestamp is not None:
        up_to = table.snapshot_at(request.up_to_timestamp, branch=branch)
        if up_to is None:
            return SnapshotRange(after_snapshot_id=after, up_to_snapshot_id=after)
    find = BranchLog.passage if follows_log else Passage.find
    passage = find(table, branch=branch, after_snapshot_id=after, up_to_snapshot_id=up_to, on_rollback=on_rollback)
    return SnapshotRange.of_passage(passage, table, commit_groups=commit_groups)


def backfill_id(
    table: LoadedTable,
    configuration: Mapping[str, object],
    after_snapshot_id: int | None,
    up_to_snapshot_id: int | str | None,
) -> str:
    """Id that follows from table, range and result configuration, so that a rerun finds its batch."""
    meaning = json.dumps([table.uuid, configuration], sort_keys=True)
    digest = hashlib.sha256(meaning.encode()).hexdigest()[:8]
    after = "start" if after_snapshot_id is None else after_snapshot_id
    return f"{after}-{up_to_snapshot_id}-{digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WayAhead:
    """The way of a pipeline from its cursor on.

    Attributes:
        cursor: None: it begins with the initial load.
        pins: None: nothing is pinned.
        end_at: snapshots at which a batch has to end.
    """

    table: LoadedTable
    pipeline: Pipeline
    cursor: Cursor | None
    pins: PipelinePins | None = None
    end_at: Collection[int] = ()

    def next_range(self) -> SnapshotRange | None:
        """The range of the next batch; None if the branch or tag has not moved, or was emptied.

        A bound of a batch ends the range, but never inside a commit: the first commit is taken whatever its size. A
        load is cut between data files, and the next batches go on with it, at its snapshot.

        Raises:
            ExpiredHistoryError: ``on_gap`` is ``fail``, and the snapshot of the cursor or of an incomplete load
                expired.
        """
        table, pipeline, cursor = self.table, self.pipeline, self.cursor
        if cursor is None and pipeline.initial_load == "from_now":
            return replace(SnapshotRange.of_passage(self._load(), table), steps=())
        gap_warning: str | None = None
        try:
            table.history.require_same(None if cursor is None else cursor.snapshot)
            if cursor is not None and cursor.load_part is not None and cursor.snapshot_id is not None:
                return SnapshotRange.next_part(
                    table, cursor.load_part, snapshot_id=cursor.snapshot_id, max_bytes=pipeline.max_bytes_per_batch,
                    made_current_at_ms=cursor.made_current_at_ms,
                )  # fmt: skip
            if is_emptied(table.history, pipeline, cursor):
                logger.warning(
                    "%s: branch %r of table %s has no snapshot any more: the next commit delivers the difference",
                    pipeline.name, pipeline.branch, table.name,
                )  # fmt: skip
                return None
            passage = self._passage().up_to_first_of(self.end_at)
        except ExpiredHistoryError as gap:
            # Before the gap, the range goes as far as the pins hold the history.
            passage, gap_warning = self._passage_at(gap)
            logger.warning("%s: %s", pipeline.name, gap_warning)
        if gap_warning is None and passage.is_empty:
            return None
        snapshots = SnapshotRange.first_of(
            passage,
            table,
            commit_groups=pipeline.commit_groups,
            max_steps=pipeline.max_steps_per_batch,
            max_bytes=pipeline.max_bytes_per_batch,
        )
        if gap_warning is None:
            return snapshots
        is_reload = passage.after_snapshot_id is None
        return replace(snapshots, warnings=(gap_warning, *snapshots.warnings), is_reload=is_reload)

    def _passage(self) -> Passage:
        """All snapshots from the cursor to the head, or the load."""
        branch, on_rollback = self.pipeline.branch, self.pipeline.on_rollback
        after_snapshot_id = None if self.cursor is None else self.cursor.snapshot_id
        is_tag = self.table.history.is_tag(branch)
        if self.pipeline.follows_log:
            return BranchLog.passage(
                self.table,
                branch=branch,
                after_snapshot_id=after_snapshot_id,
                made_current_at_ms=None if self.cursor is None else self.cursor.made_current_at_ms,
                is_load=self.pipeline.initial_load == "full",
                on_rollback=on_rollback,
            )
        if is_tag and after_snapshot_id is not None:
            return Passage.of_tag(self.table, tag=branch, after_snapshot_id=after_snapshot_id, on_rollback=on_rollback)
        load: Literal["changes", "full", "from_earliest"] = "changes"
        if self.cursor is None:
            load = "from_earliest" if self.pipeline.initial_load == "from_earliest" and not is_tag else "full"
        return Passage.find(
            self.table,
            branch=branch,
            after_snapshot_id=after_snapshot_id,
            after_was_head=True,
            load=load,
            on_rollback=on_rollback,
        )

    def _passage_at(self, gap: ExpiredHistoryError) -> tuple[Passage, str]:
        """The passage as far as pins hold it, and a warning; after that a full load, if ``on_gap`` allows."""
        passage, pipeline = self._passage_to_pins(), self.pipeline
        if passage is not None:
            return passage, (
                f"table {self.table.name} has lost changes after snapshot {passage.up_to_snapshot_id}, the last one "
                "that is pinned: they expired before a run saw them; batches go on up to it, and then on_gap: "
                f"{pipeline.on_gap} decides"
            )
        if pipeline.on_gap == "fail":
            raise gap.restated(
                f"{gap.sentence}; set on_gap: reload to deliver every row again, or start over by icefloe reset "
                f"{pipeline.name}",
            ) from gap
        return self._load(), (
            f"{gap.sentence}; the table was loaded again (on_gap: reload): every row is an INSERT, and rows deleted "
            "since are not delivered as DELETE; a consumer must drop its rows of the earlier batches"
        )

    def _load(self) -> Passage:
        """A landing on the head."""
        if self.pipeline.follows_log:
            return BranchLog.passage(self.table, branch=self.pipeline.branch, after_snapshot_id=None, is_load=True)
        return Passage.find(self.table, branch=self.pipeline.branch, load="full")

    def _passage_to_pins(self) -> Passage | None:
        """To the last pinned snapshot; None if nothing is pinned, or if it is delivered."""
        history, pipeline, cursor = self.table.history, self.pipeline, self.cursor
        # A tag is a state without a history, and a load reads one snapshot: pins that hold their start hold all of it.
        if self.pins is None or cursor is None or cursor.snapshot_id is None or cursor.load_part is not None:
            return None
        if history.is_tag(pipeline.branch) or pipeline.follows_log:
            return None
        end_id = self.pins.end_after(cursor.snapshot_id, history)
        if end_id is None:
            return None
        try:
            history.require_same(cursor.snapshot)
            return Passage.find(
                self.table,
                branch=pipeline.branch,
                after_snapshot_id=cursor.snapshot_id,
                up_to_snapshot_id=end_id,
                was_head=True,
                after_was_head=True,
                on_rollback=pipeline.on_rollback,
            )
        except (ExpiredHistoryError, NotAnAncestorError):
            return None


def is_emptied(history: History, pipeline: Pipeline, cursor: Cursor | None) -> bool:
    """True if a delivered branch has no snapshot any more, as after a replacement by an empty table."""
    is_delivered = cursor is not None and cursor.snapshot_id is not None
    return is_delivered and pipeline.on_rollback == "compensate" and history.head(pipeline.branch) is None
