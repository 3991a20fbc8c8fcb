"""The check that a ``replace`` snapshot, which is skipped, kept the number of rows."""

from collections.abc import Callable, Iterable, Sequence

from pyiceberg.table.snapshots import Snapshot

from icefloe.errors import TerminalError
from icefloe.iceberg.history.history import is_replace
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.passage import Passage
from icefloe.iceberg.manifests.manifest_entries import ManifestFile
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.scan.changed_files import FileTerm
from icefloe.iceberg.scan.data_manifests import DataManifests
from icefloe.iceberg.scan.delete_file_index import DeleteFileIndex
from icefloe.iceberg.scan.live_deletes import LiveDeletes
from icefloe.iceberg.step import Step, StepKind
from icefloe.storage.parallel import map_parallel


def check_replaces(passage: Passage, snapshots: Sequence[Snapshot], table: LoadedTable) -> list[str]:
    """Check every ``replace`` snapshot among some commits of a passage; see `check_replace`.

    Returns:
        A warning for each that could not be checked.
    """
    parents = passage.parents
    replaced = [(parents[snapshot.snapshot_id], snapshot) for snapshot in snapshots if is_replace(snapshot)]
    states = {state.snapshot_id: state for pair in replaced for state in pair if state is not None}
    # All manifest lists at once. Without delete files, their counts are all that a check needs.
    lists = dict(zip(states, map_parallel(table.manifests.manifests, states.values()), strict=True))
    checked = [
        check_replace(
            snapshot,
            None if parent is None else lists[parent.snapshot_id],
            lists[snapshot.snapshot_id],
            table.manifests,
            table=table.name,
        )
        for parent, snapshot in replaced
    ]
    return [warning for warning in checked if warning is not None]


def check_replace(
    snapshot: Snapshot,
    manifests_before: Sequence[ManifestFile] | None,
    manifests: Sequence[ManifestFile],
    reader: ManifestReader,
    *,
    table: str,
) -> str | None:
    """Compare the live rows before and after a ``replace`` snapshot if both are known exactly.

    Without delete files the manifest lists count all rows. Otherwise the rows of the files that the snapshot replaced
    are counted: a deletion vector says how many of them are deleted, other delete files do not.

    Args:
        snapshot: says that it changed no row.
        manifests_before: of the snapshot before it; None if that has expired.
        manifests: its own.
        reader: reads them.
        table: its name.

    Returns:
        None if they agree; a warning if they could not be checked.

    Raises:
        TerminalError: they differ, so the snapshot changed rows although it says that it did not.
    """
    before = None if manifests_before is None else _records(manifests_before)
    after = _records(manifests)
    has_deletes = any(
        each.may_list_live_files and each.holds_deletes for each in (*(manifests_before or ()), *manifests)
    )
    if before is not None and after is not None and not has_deletes:
        _require_equal(before, after, snapshot, table, "before it")
        return None
    step = _step(snapshot)
    own = {snapshot.snapshot_id: manifests}
    deletes = LiveDeletes.read([step], own, reader)
    terms = list(DataManifests(own, reader, deletes).read(step).terms(deletes).each())

    def live_rows(term: FileTerm) -> int | None:
        return _live_rows(term, deletes.index)

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


def _records(manifests: Iterable[ManifestFile]) -> int | None:
    """Number of rows of all data files of a state, deleted rows too; None if a V1 writer left the counts out."""
    counts = [
        manifest.live_rows for manifest in manifests if manifest.may_list_live_files and not manifest.holds_deletes
    ]
    return None if None in counts else sum(count for count in counts if count is not None)


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


def _live_rows(term: FileTerm, delete_files: DeleteFileIndex) -> int | None:
    """Number of live rows of one data file; None if anything other than one deletion vector deletes rows."""
    if not term.delete_files:
        return _all_rows(term)
    [first, *others] = (delete_files[number] for number in term.delete_files)
    is_known = first.is_deletion_vector and not others
    return _all_rows(term) - first.record_count if is_known else None
