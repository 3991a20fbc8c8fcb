"""The step of a tag that was moved: a tag names a state of the table, not a history."""

from itertools import takewhile
from typing import Literal

from pyiceberg.table import Table

from icefloe.iceberg.history.history import NotAnAncestorError, is_replace
from icefloe.iceberg.history.metadata_log import MetadataLog
from icefloe.iceberg.steps.comparable_states import require_comparable_states
from icefloe.iceberg.steps.step_collector import StepCollector
from icefloe.iceberg.steps.steps import SnapshotRange

__all__ = ["plan_tag_move"]


def plan_tag_move(
    table: Table, *, tag: str, after_snapshot_id: int, on_rollback: Literal["compensate", "fail"]
) -> SnapshotRange:
    """One step with the difference between the state that a tag pointed to and the state that it points to now.

    Commits between the two are not steps of their own: readers of the tag never saw their states. There is no step if
    the tag was not moved, or was moved over ``replace`` snapshots only.

    Args:
        table: as loaded; only this version of its metadata counts.
        tag: its name.
        after_snapshot_id: the snapshot that it pointed to.
        on_rollback: ``compensate`` if it may have been moved to a snapshot that does not descend from that one.

    Raises:
        UnknownBranchError: there is no such tag.
        ExpiredHistoryError: the snapshot that it pointed to has expired.
        NotAnAncestorError: it was moved back or aside, and ``on_rollback`` is ``fail``.
        TerminalError: it was moved to a state in which the table's columns have other types.
    """
    collector = StepCollector(table, commit_groups="fuse", max_steps=None)
    history = collector.history
    tagged = history.head(tag)
    if tagged is None or tagged.snapshot_id == after_snapshot_id:
        return SnapshotRange(after_snapshot_id=after_snapshot_id, up_to_snapshot_id=after_snapshot_id)
    lineage = history.lineage(tagged.snapshot_id)
    if after_snapshot_id not in history.snapshots:
        raise history.expired(after_snapshot_id, lineage[-1])
    is_forward = history.is_ancestor(after_snapshot_id, tagged.snapshot_id)
    if on_rollback == "fail" and not is_forward:
        raise NotAnAncestorError(
            f"snapshot {after_snapshot_id} is not an ancestor of snapshot {tagged.snapshot_id}, to which the tag "
            f"{tag!r} of table {history.table_name} was moved, and on_rollback is fail",
            table=history.table_name, after_snapshot_id=after_snapshot_id, up_to_snapshot_id=tagged.snapshot_id,
            branch=tag,
        )  # fmt: skip
    passed = list(takewhile(lambda snapshot: snapshot.snapshot_id != after_snapshot_id, lineage))
    # Compactions are checked by their counts. Comparing the two states would read all files that were replaced.
    if is_forward and all(map(is_replace, passed)):
        collector.add_commits(passed[::-1])
    else:
        require_comparable_states(table, after_snapshot_id, tagged.snapshot_id)
        moved_ms = _moved_at(collector.log, tag, tagged.snapshot_id)
        collector.add_move(tagged, start_snapshot_id=after_snapshot_id, timestamp_ms=moved_ms)
    return SnapshotRange(
        after_snapshot_id=after_snapshot_id,
        up_to_snapshot_id=tagged.snapshot_id,
        steps=tuple(collector.steps),
        skipped_replace_snapshots=collector.skipped_replace_snapshots,
        warnings=tuple(collector.warnings),
    )


def _moved_at(log: MetadataLog, tag: str, snapshot_id: int) -> int:
    """Time since which the metadata files show that the tag points to a snapshot."""
    since = len(log) - 1
    while since > 0:
        log.prefetch(range(since - 8, since))
        version = log.version(since - 1)
        if version is None or version.branch_heads.get(tag) != snapshot_id:
            break
        since -= 1
    return log.timestamps_ms[since]
