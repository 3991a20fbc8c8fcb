"""Snapshot summaries: rows as writers counted them, and bytes for planning."""

from collections.abc import Mapping, Sequence
from typing import Final

from pyiceberg.table.snapshots import Snapshot

from icefloe.iceberg.step import Step, StepKind
from icefloe.units import natural

__all__ = ["file_bytes_bound"]

_ADDED: Final = ("added-records", "added-data-files")
_DELETED: Final = ("deleted-records", "deleted-data-files")
_ADDED_FILES: Final = ("added-data-files", "added-delete-files")
_WRITTEN_BY_ALL: Final = ("total-records", "total-data-files", "added-data-files", "deleted-data-files")


def changed_records(snapshot: Snapshot | None) -> tuple[int, int] | None:
    """Records in added and deleted data files; None if the summary does not say."""
    summary = _properties(snapshot)
    if not any(key in summary for key in (*_WRITTEN_BY_ALL, _ADDED[0], _DELETED[0])):
        return None
    # Writers leave out counts of 0: a missing count is 0 if the count of files is missing too, but not every count.
    added, deleted = _count(summary, *_ADDED), _count(summary, *_DELETED)
    return None if added is None or deleted is None else (added, deleted)


def deletes_added(snapshot: Snapshot | None) -> int:
    """Positions and keys, less those from older delete files."""
    summary = _properties(snapshot)
    added, removed = (_number(summary, f"{verb}-position-deletes") or 0 for verb in ("added", "removed"))
    return max(0, added - removed) + (_number(summary, "added-equality-deletes") or 0)


def chosen_properties(snapshot: Snapshot | None, keys: Sequence[str]) -> dict[str, str]:
    """The values of a summary under some keys, as far as it has them."""
    if snapshot is None or snapshot.summary is None:
        return {}
    found = {"operation": snapshot.summary.operation.value, **snapshot.summary.additional_properties}
    return {key: found[key] for key in keys if key in found}


def total_records(snapshot: Snapshot | None) -> int | None:
    """Records in all data files at a snapshot, by its summary."""
    return _number(_properties(snapshot), "total-records")


def file_bytes_bound(snapshots: Mapping[int, Snapshot], steps: Sequence[Step]) -> int | None:
    """Upper bound of the bytes of files that the steps can read; None if summaries do not say.

    A step reads files that it added, and files live before it: at the start, or added by an earlier step or
    ``replace``.
    """
    # Steps 1 to 3 read at most what was live before step 1, and what 1, 2 and 3 added.
    sizes: list[int | None] = []
    previous_id: int | None = None
    for step in steps:
        sizes += _new_file_bytes(snapshots, step, is_next=step.start_snapshot_id == previous_id)
        previous_id = step.end_snapshot_id
    return None if None in sizes else sum(size for size in sizes if size is not None)


def _new_file_bytes(snapshots: Mapping[int, Snapshot], step: Step, *, is_next: bool) -> list[int | None]:
    start, end = (
        _total_file_bytes(snapshots.get(each or -1)) for each in (step.start_snapshot_id, step.end_snapshot_id)
    )
    if step.kind is StepKind.INITIAL:
        return [end]
    if step.kind is StepKind.STATES:
        return [start, end]
    added = [_added_file_bytes(snapshots.get(snapshot_id)) for snapshot_id in step.snapshot_ids]
    first = snapshots.get(step.snapshot_ids[0])
    is_root = first is not None and first.parent_snapshot_id is None
    # Without a start, only a root is known to begin with no files.
    return added if is_next and (is_root or step.start_snapshot_id is not None) else [start, *added]


def _total_file_bytes(snapshot: Snapshot | None) -> int | None:
    return _number(_properties(snapshot), "total-files-size")


def _added_file_bytes(snapshot: Snapshot | None) -> int | None:
    summary = _properties(snapshot)
    size = _number(summary, "added-files-size")
    if size is not None or not any(key in summary for key in (*_WRITTEN_BY_ALL, *_ADDED_FILES)):
        return size
    has_files = any(_number(summary, key) != 0 for key in _ADDED_FILES if key in summary)
    return None if has_files else 0


def _properties(snapshot: Snapshot | None) -> Mapping[str, str]:
    return snapshot.summary.additional_properties if snapshot is not None and snapshot.summary is not None else {}


def _count(summary: Mapping[str, str], records_key: str, files_key: str) -> int | None:
    if records_key in summary:
        return _number(summary, records_key)
    return 0 if _number(summary, files_key) in (None, 0) else None


def _number(summary: Mapping[str, str], key: str) -> int | None:
    return natural(summary.get(key, ""))
