"""The check that a ``replace`` snapshot, which is skipped, kept the number of rows."""

from collections.abc import Iterable, Sequence

from pyiceberg.table.snapshots import Snapshot

from icefloe.errors import TerminalError
from icefloe.iceberg.history.history import is_replace
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.passage import Passage
from icefloe.iceberg.manifests.manifest_entries import EntryStatus, ManifestFile
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.scan.changed_files import FileTerm
from icefloe.iceberg.scan.data_manifests import DataManifests
from icefloe.iceberg.scan.delete_file_index import DeleteFileIndex
from icefloe.iceberg.scan.live_deletes import ListedStates, LiveDeletes
from icefloe.iceberg.step import Step, StepKind
from icefloe.storage.parallel import map_parallel


def check_replaces(passage: Passage, snapshots: Sequence[Snapshot], table: LoadedTable) -> list[str]:
    """Check every ``replace`` snapshot among some commits of a passage; see `check_replace`.

    Returns:
        A warning for each that could not be checked.
    """
    before = passage.parents
    replaces = [snapshot for snapshot in snapshots if is_replace(snapshot)]
    parents = {each.snapshot_id: parent for each in replaces if (parent := before[each.snapshot_id]) is not None}
    states = {state.snapshot_id: state for state in (*replaces, *parents.values())}
    # All manifest lists at once. Without delete files, their counts are all that a check needs.
    lists = dict(zip(states, map_parallel(table.manifests.manifests, states.values()), strict=True))
    listed = ListedStates(lists, {each: parent.snapshot_id for each, parent in parents.items()})
    checked = [check_replace(each.snapshot_id, listed, table.manifests, table=table.name) for each in replaces]
    return [warning for warning in checked if warning is not None]


def check_replace(snapshot_id: int, states: ListedStates, reader: ManifestReader, *, table: str) -> str | None:
    """Compare the live rows before and after a ``replace`` snapshot if both are known exactly.

    If there are no delete files and the manifest lists count as many rows before as after, nothing is read. Otherwise
    the rows of the files that the snapshot replaced are counted: a deletion vector says how many of them are deleted,
    other delete files do not.

    Args:
        snapshot_id: says that it changed no row.
        states: its manifests and, unless it has expired, those of the state before it.
        reader: reads them.
        table: its name.

    Returns:
        None if they agree; a warning if they could not be checked.

    Raises:
        TerminalError: they differ, so the snapshot changed rows although it says that it did not.
    """
    parent_id = states.parents.get(snapshot_id)
    before = None if parent_id is None else _records(states.manifests[parent_id])
    if before is not None and before == _records(states.manifests[snapshot_id]):
        return None
    step = _step(snapshot_id)
    deletes = LiveDeletes.read([step], states, reader)
    terms = list(DataManifests(reader, deletes).read(step).terms(deletes.index).each())
    rows = [(term, _live_rows(term, deletes.index)) for term in terms]
    is_known = all(count is not None for _, count in rows)
    # A file that left without a DELETED entry was not replaced by any other.
    added_paths = {term.entry.data_file.path for term in terms if term.weight > 0}
    is_lost = any(
        term.entry.status is not EntryStatus.DELETED and term.entry.data_file.path not in added_paths for term in terms
    )
    removed, added = (
        sum(max(0, sign * term.weight) * (_all_rows(term) if count is None else count) for term, count in rows)
        for sign in (-1, 1)
    )
    if removed != added and (is_known or is_lost):
        raise TerminalError(
            f"replace snapshot {snapshot_id} of table {table} must keep the {removed} rows of the files that it "
            f"replaced, but there are {added} after it: its writer changed rows under the name of a compaction; load "
            "the table again",
            table=table, snapshot_id=snapshot_id, rows_before=removed, rows_after=added,
        )  # fmt: skip
    if is_known:
        return None
    return (
        f"replace snapshot {snapshot_id} of table {table} was skipped, and it could not be "
        "checked that it kept every row: position or equality deletes are in force on files that it replaced"
    )


def _records(manifests: Iterable[ManifestFile]) -> int | None:
    """Number of rows of a state by its manifest list; None if it has delete files or no counts."""
    listed = list(manifests)
    counts = [manifest.live_rows for manifest in listed]
    is_exact = None not in counts and not any(manifest.holds_deletes for manifest in listed)
    return sum(count for count in counts if count is not None) if is_exact else None


def _step(snapshot_id: int) -> Step:
    """The step that the snapshot would be if it were not a ``replace``."""
    return Step(
        change_ordinal=0,
        kind=StepKind.COMMIT,
        start_snapshot_id=None,
        end_snapshot_id=snapshot_id,
        snapshot_ids=(snapshot_id,),
        commit_snapshot_id=snapshot_id,
        commit_timestamp_us=0,
    )


def _all_rows(term: FileTerm) -> int:
    return term.entry.data_file.record_count


def _live_rows(term: FileTerm, delete_files: DeleteFileIndex) -> int | None:
    """Number of live rows of one data file; None if anything other than one deletion vector deletes rows."""
    if not term.delete_files:
        return _all_rows(term)
    [first, *others] = (delete_files[number] for number in term.delete_files)
    is_known = first.is_deletion_vector and not others
    return _all_rows(term) - first.record_count if is_known else None
