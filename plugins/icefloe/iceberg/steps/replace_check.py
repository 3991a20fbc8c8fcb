"""The check that a ``replace`` snapshot, which is skipped, kept the number of rows."""

from collections.abc import Callable, Iterable

from pyiceberg.table.snapshots import Snapshot

from icefloe.errors import TerminalError
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.scan.changed_files import FileTerm, StepFiles
from icefloe.iceberg.step import Step, StepKind


def check_replace(snapshot: Snapshot, parent: Snapshot | None, reader: ManifestReader, *, table: str) -> str | None:
    """Compare the live rows before and after a ``replace`` snapshot if both are known exactly.

    Without delete files the manifest lists count all rows. Otherwise the rows of the files that the snapshot replaced
    are counted: a deletion vector says how many of them are deleted, other delete files do not.

    Args:
        snapshot: says that it changed no row.
        parent: the snapshot before it; None if that has expired.
        reader: of the table's manifests.
        table: its name.

    Returns:
        None if they agree; a warning if they could not be checked.

    Raises:
        TerminalError: they differ, so the snapshot changed rows although it says that it did not.
    """
    before = None if parent is None else _records(parent, reader)
    after = _records(snapshot, reader)
    has_deletes = any(_has_deletes(each, reader) for each in (parent, snapshot) if each is not None)
    if before is not None and after is not None and not has_deletes:
        _require_equal(before, after, snapshot, table, "before it")
        return None
    step = _step(snapshot)
    files = StepFiles([step], {snapshot.snapshot_id: reader.manifests(snapshot)}, reader)
    terms = files.terms(step)

    def live_rows(term: FileTerm) -> int | None:
        return _live_rows(term, files)

    # Counts in manifest lists include rows that are deleted. So they are compared for the files that both states have,
    # and replaced files are compared by their live rows below.
    if before is not None and after is not None:
        kept = "of the data files that it left alone"
        _require_equal(before - _sum(terms, -1, _all_rows), after - _sum(terms, 1, _all_rows), snapshot, table, kept)
    if any(live_rows(term) is None for term in terms):
        return (
            f"replace snapshot {snapshot.snapshot_id} of table {table} was skipped, and it could not be "
            "checked that it kept every row: position or equality deletes are in force on files that it replaced"
        )
    replaced = "of the files that it replaced"
    _require_equal(_sum(terms, -1, live_rows), _sum(terms, 1, live_rows), snapshot, table, replaced)
    return None


def _require_equal(before: int, after: int, snapshot: Snapshot, table: str, which: str) -> None:
    if before != after:
        raise TerminalError(
            f"replace snapshot {snapshot.snapshot_id} of table {table} must keep the {before} rows "
            f"{which}, but there are {after} after it: its writer changed rows under the name of a compaction; load "
            "the table again",
            table=table, snapshot_id=snapshot.snapshot_id, rows_before=before, rows_after=after,
        )  # fmt: skip


def _records(snapshot: Snapshot, reader: ManifestReader) -> int | None:
    """Number of rows of all data files at a snapshot, deleted rows too; None if a V1 writer left the counts out."""
    manifests = [m for m in reader.manifests(snapshot) if m.may_list_live_files and not m.holds_deletes]
    counts = [manifest.live_rows for manifest in manifests]
    return None if None in counts else sum(count for count in counts if count is not None)


def _has_deletes(snapshot: Snapshot, reader: ManifestReader) -> bool:
    return any(manifest.may_list_live_files for manifest in reader.manifests(snapshot) if manifest.holds_deletes)


def _step(snapshot: Snapshot) -> Step:
    """The step that the snapshot would be if it were not a ``replace``."""
    return Step(
        change_ordinal=0,
        kind=StepKind.COMMIT,
        start_snapshot_id=None,
        end_snapshot_id=snapshot.snapshot_id,
        snapshot_ids=(snapshot.snapshot_id,),
        commit_snapshot_id=snapshot.snapshot_id,
        commit_timestamp_us=0,
    )


def _sum(terms: Iterable[FileTerm], sign: int, rows: Callable[[FileTerm], int | None]) -> int:
    return sum(abs(term.weight) * (rows(term) or 0) for term in terms if term.weight * sign > 0)


def _all_rows(term: FileTerm) -> int:
    return term.entry.data_file.record_count


def _live_rows(term: FileTerm, files: StepFiles) -> int | None:
    """Number of live rows of one data file; None if anything other than one deletion vector deletes rows."""
    if not term.delete_files:
        return _all_rows(term)
    [first, *others] = map(files.delete_file, term.delete_files)
    is_known = first.is_deletion_vector and not others
    return _all_rows(term) - first.record_count if is_known else None
