"""The data files that one step adds and removes, from the manifests of its snapshots."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from icefloe.iceberg.delete_files import DeleteFile, DeleteFileInForceError, DeleteFiles
from icefloe.iceberg.history import History
from icefloe.iceberg.manifest_entries import DataEntry, EntryStatus, Manifest
from icefloe.iceberg.manifests import ManifestReader
from icefloe.iceberg.step import Step, StepKind

__all__ = ["FileChange", "StepFiles"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A data file that a step adds (+1) or removes (-1), and at which snapshot its rows count.

    Attributes:
        entry: the file.
        weight: +1 or -1, or more where a table lists a file more than once.
        snapshot_id: its delete files decide which of the rows count.
    """

    entry: DataEntry
    weight: int
    snapshot_id: int


class StepFiles:
    """Finds the file changes of steps.

    Args:
        history: of the table.
        reader: of its manifests.
    """

    def __init__(self, history: History, reader: ManifestReader) -> None:
        self._history = history
        self._reader = reader
        self.warnings: list[str] = []

    def changes(self, step: Step) -> list[FileChange]:
        """What the step adds and removes; files that it both adds and removes are left out.

        Raises:
            DeleteFileInForceError: a delete file is added, removed, or in force on one of the files.
            ExpiredHistoryError: a state that the step compares is gone.
            TerminalError, TransientError: as ``ManifestReader``.
        """
        if step.kind is StepKind.COMMIT:
            found = _net([change for snapshot_id in step.snapshot_ids for change in self._committed(snapshot_id)])
        elif step.kind is StepKind.STATES:
            found = _net(list(self._difference(step)))
        else:
            found = _net(list(self._live(step.end_snapshot_id, self._manifests(step.end_snapshot_id), weight=1)))
        self._refuse_deletes_on(found)
        return found

    def _committed(self, snapshot_id: int) -> Iterator[FileChange]:
        """The entries of the manifests that the snapshot wrote: exactly its ADDED and DELETED files."""
        own = [manifest for manifest in self._manifests(snapshot_id) if manifest.added_snapshot_id == snapshot_id]
        for manifest in own:
            if manifest.holds_deletes:
                self._refuse_changed_deletes(snapshot_id, manifest)
        data_manifests = [
            m for m in own if not m.holds_deletes and (m.added_files_count != 0 or m.deleted_files_count != 0)
        ]
        for manifest, entries in zip(data_manifests, self._read(data_manifests), strict=True):
            foreign = [e for e in entries if e.status is EntryStatus.ADDED and e.snapshot_id != snapshot_id]
            if foreign:
                self.warnings.append(
                    f"manifest {manifest.path} of snapshot {snapshot_id} lists {len(foreign)} data files as added by "
                    "other snapshots: they are not counted as its changes"
                )
            for entry in entries:
                # A DELETED entry is the manifest's own whatever id it has: PyIceberg up to 0.11.1 wrote the adding one.
                if entry.status is EntryStatus.DELETED:
                    yield FileChange(entry=entry, weight=-1, snapshot_id=snapshot_id)
                elif entry.status is EntryStatus.ADDED and entry.snapshot_id == snapshot_id:
                    yield FileChange(entry=entry, weight=1, snapshot_id=snapshot_id)

    def _difference(self, step: Step) -> Iterator[FileChange]:
        if step.start_snapshot_id is None:
            raise ValueError(f"step {step.change_ordinal} compares states and has no start")
        self._refuse_different_deletes(step.start_snapshot_id, step.end_snapshot_id)
        before, after = self._manifests(step.start_snapshot_id), self._manifests(step.end_snapshot_id)
        shared = {manifest.path for manifest in before} & {manifest.path for manifest in after}
        for snapshot_id, manifests, weight in (
            (step.start_snapshot_id, before, -1),
            (step.end_snapshot_id, after, 1),
        ):
            yield from self._live(snapshot_id, [m for m in manifests if m.path not in shared], weight=weight)

    def _live(self, snapshot_id: int, manifests: Iterable[Manifest], *, weight: int) -> Iterator[FileChange]:
        for entries in self._read([m for m in manifests if not m.holds_deletes and m.may_list_live_files]):
            for entry in entries:
                if entry.status is not EntryStatus.DELETED:
                    yield FileChange(entry=entry, weight=weight, snapshot_id=snapshot_id)

    def _refuse_changed_deletes(self, snapshot_id: int, manifest: Manifest) -> None:
        for entry in self._reader.delete_entries(manifest):
            is_own = entry.status is EntryStatus.ADDED and entry.snapshot_id == snapshot_id
            if is_own or entry.status is EntryStatus.DELETED:
                why = "is added" if is_own else "is removed"
                raise DeleteFileInForceError.of(self._history.table_name, snapshot_id, entry.delete_file, why)

    def _refuse_different_deletes(self, start_snapshot_id: int, end_snapshot_id: int) -> None:
        before = {file.identity: file for file in self._live_deletes(start_snapshot_id)}
        after = {file.identity: file for file in self._live_deletes(end_snapshot_id)}
        for identity in sorted(before.keys() ^ after.keys(), key=str):
            is_before = identity in before
            raise DeleteFileInForceError.of(
                self._history.table_name, start_snapshot_id if is_before else end_snapshot_id,
                before[identity] if is_before else after[identity], "is in force",
            )  # fmt: skip

    def _refuse_deletes_on(self, changes: Iterable[FileChange]) -> None:
        in_force: dict[int, DeleteFiles] = {}
        for change in changes:
            if change.snapshot_id not in in_force:
                in_force[change.snapshot_id] = DeleteFiles(self._live_deletes(change.snapshot_id))
            delete_files = in_force[change.snapshot_id].of(change.entry.data_file, change.entry.partition)
            if delete_files:
                why = f"is in force on data file {change.entry.data_file.path}"
                raise DeleteFileInForceError.of(self._history.table_name, change.snapshot_id, delete_files[0], why)

    def _live_deletes(self, snapshot_id: int) -> list[DeleteFile]:
        manifests = [m for m in self._manifests(snapshot_id) if m.holds_deletes and m.may_list_live_files]
        entries = (entry for manifest in manifests for entry in self._reader.delete_entries(manifest))
        return [entry.delete_file for entry in entries if entry.status is not EntryStatus.DELETED]

    def _manifests(self, snapshot_id: int) -> tuple[Manifest, ...]:
        return self._reader.manifests(self._history.snapshot(snapshot_id))

    def _read(self, manifests: Iterable[Manifest]) -> list[list[DataEntry]]:
        return self._reader.in_parallel(self._reader.data_entries, manifests)


def _net(changes: Iterable[FileChange]) -> list[FileChange]:
    """One change per data file, in the order they first appear; those that cancel are dropped."""
    by_path: dict[str, FileChange] = {}
    for change in changes:
        earlier = by_path.get(change.entry.data_file.path)
        if earlier is not None:
            change = FileChange(
                entry=_richer(earlier.entry, change.entry), weight=earlier.weight + change.weight,
                snapshot_id=change.snapshot_id,
            )  # fmt: skip
        by_path[change.entry.data_file.path] = change
    return [change for change in by_path.values() if change.weight]


def _richer(one: DataEntry, other: DataEntry) -> DataEntry:
    return other if one.data_file.first_row_id is None else one
