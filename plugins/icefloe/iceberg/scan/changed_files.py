"""Changes of one step to data files, by the manifests of its snapshots: terms of files and delete files in force."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from icefloe.errors import TerminalError
from icefloe.iceberg.delete_file import DeleteFile
from icefloe.iceberg.manifests.manifest_entries import DataEntry, DeleteEntry, EntryStatus, ManifestFile
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.scan.delete_file_index import NO_DELETES, DeleteFileIndex, DeleteNumbers
from icefloe.iceberg.scan.manifest_pruning import ManifestPruning
from icefloe.iceberg.scan.reached_files import KeptFiles, ReachedFiles, live_data
from icefloe.iceberg.step import Step, StepKind
from icefloe.storage.parallel import map_parallel

__all__ = ["FileTerm", "StepFiles"]


class FileTerm(NamedTuple):
    """The rows of a data file that are live if some delete files are in force, and their weight.

    The terms of a step add up to its change. An added file is +1 and a removed file is -1, with the delete files in
    force on it. A file that stays while its delete files change is -1 with the old ones and +1 with the new ones.

    Attributes:
        entry: the data file.
        weight: +1 or -1, or more if a table lists a file more than once.
        delete_files: the delete files in force on the data file, by their numbers in the batch.
    """

    # Thousands of them may be made. A frozen dataclass takes three times as long to make.
    entry: DataEntry
    weight: int
    delete_files: DeleteNumbers


class StepTerms(NamedTuple):
    """The terms of one step: those of single files, then those of files that stay while their delete files change.

    A delete file of keys may change what is in force on each data file of a table, and a batch may have a hundred of
    them: the terms of files that stay are not made one by one.
    """

    single: Sequence[FileTerm]
    kept: Sequence[KeptFiles] = ()

    def each(self) -> Iterator[FileTerm]:
        """All terms, file by file."""
        yield from self.single
        for files in self.kept:
            for entry, (earlier, later) in files.changing():
                yield FileTerm(entry, -1, earlier)
                yield FileTerm(entry, 1, later)


class StepFiles:
    """Finds the terms of the steps of one batch.

    Args:
        steps: of the batch; every manifest is read once for all of them.
        manifests: of the states that the steps compare, by snapshot id.
        reader: reads them.
    """

    def __init__(
        self, steps: Sequence[Step], manifests: Mapping[int, Sequence[ManifestFile]], reader: ManifestReader
    ) -> None:
        self._manifests = manifests
        self._reader = reader
        self._deletes = DeleteFileIndex(reader.key_types)
        self._live_in: dict[str, DeleteNumbers] = {}
        changed = NO_DELETES.union(*(self._changed_deletes(step) for step in steps))
        pruning = ManifestPruning(self._deletes.entries(changed), reader.partition_types)
        self._reached = ReachedFiles(reader, self._deletes, pruning=pruning, changed=changed)
        self.warnings: list[str] = []

    def delete_file(self, number: int) -> DeleteFile:
        """A delete file by its number in the terms."""
        return self._deletes[number]

    def step_terms(self, step: Step) -> StepTerms:
        """The terms whose sum is a step's change; terms that cancel are left out.

        Raises:
            TerminalError, TransientError: as ``ManifestReader``.
        """
        if step.kind is StepKind.COMMIT and len(step.snapshot_ids) == 1:
            terms = self._committed(step.snapshot_ids[0])
            # A file that is listed twice may have terms that cancel or add up.
            if not _is_any_listed_twice(terms):
                return terms._replace(single=_net(terms.single))
        return StepTerms(self.terms(step))

    def terms(self, step: Step) -> list[FileTerm]:
        """The same, file by file."""
        if step.kind is StepKind.COMMIT:
            return _net(chain.from_iterable(self._committed(each).each() for each in step.snapshot_ids))
        if step.kind is StepKind.STATES:
            return _net(self._difference(step))
        return self._loaded(step)

    def _loaded(self, step: Step) -> list[FileTerm]:
        """The live files of a load or of its part, in the order of the manifests, which never changes."""
        in_force = self._deletes.in_force_at(self._live_deletes(step.end_snapshot_id))
        live = self._live(self._manifests[step.end_snapshot_id])
        terms = _net(FileTerm(entry, 1, *in_force(self._deletes.reach(entry))) for entry in live)
        part = step.load_part
        if part is None:
            return terms
        if part.num_files != len(terms):
            raise TerminalError(
                f"the initial load of snapshot {step.end_snapshot_id} was cut for {part.num_files} data files, but its "
                f"manifests list {len(terms)}: a snapshot never changes, so they were overwritten; load the table "
                "again under another name",
                snapshot_id=step.end_snapshot_id,
            )
        return terms[part.first_file : part.stop_file]

    def _committed(self, snapshot_id: int) -> StepTerms:
        """The change of one snapshot; the manifests that it wrote hold all its ADDED and DELETED entries."""
        own, (added, removed) = list(self._own_entries(snapshot_id)), self._own_deletes(snapshot_id)
        if not own and not added and not removed:
            return StepTerms(())
        # A snapshot that removes file a, adds file b, and adds a delete file d that reaches a and c:
        #   a   -1 with the delete files before
        #   b   +1 with the delete files after
        #   c   -1 before, +1 after: what is left of it are the rows that d deletes, as -1
        # The state before is the state after, taken back by what the snapshot says of itself.
        after = self._live_deletes(snapshot_id)
        # Not from its parent, which may have expired.
        before = removed | (after - added)
        in_force = self._deletes.in_force_at(before, after)
        single = []
        for entry in own:
            # A DELETED entry is the manifest's own whatever its id: PyIceberg up to 0.11.1 wrote the id of the adding
            # snapshot.
            if entry.status is EntryStatus.DELETED:
                earlier, _ = in_force(self._deletes.reach(entry))
                single.append(FileTerm(entry, -1, earlier))
            elif entry.status is EntryStatus.ADDED and entry.snapshot_id == snapshot_id:
                _, later = in_force(self._deletes.reach(entry))
                single.append(FileTerm(entry, 1, later))
        reached = self._reached.of(self._manifests[snapshot_id]) if added or removed else ()
        return StepTerms(single, [files.without_added_by(snapshot_id).between(in_force) for files in reached])

    def _own_entries(self, snapshot_id: int) -> Iterator[DataEntry]:
        own = [m for m in self._own_manifests(snapshot_id) if not m.holds_deletes]
        # A count that a V1 writer left out is None: that manifest is read.
        changing = [
            manifest for manifest in own if manifest.added_files_count != 0 or manifest.deleted_files_count != 0
        ]
        for manifest, entries in zip(changing, self._read(changing), strict=True):
            foreign = [e for e in entries if e.status is EntryStatus.ADDED and e.snapshot_id != snapshot_id]
            if foreign:
                self.warnings.append(
                    f"manifest {manifest.path} of snapshot {snapshot_id} lists {len(foreign)} data files as added by "
                    "other snapshots: they are not counted as its changes"
                )
            yield from entries

    def _difference(self, step: Step) -> Iterator[FileTerm]:
        """The difference of two states; in manifests of both, only files whose delete files changed are compared."""
        if step.start_snapshot_id is None:
            raise ValueError(f"step {step.change_ordinal} compares states and has no start")
        ends = ((step.start_snapshot_id, -1), (step.end_snapshot_id, 1))
        manifests = {snapshot_id: self._manifests[snapshot_id] for snapshot_id, _ in ends}
        # The same manifest lists the same files, which cancel. Only if delete files changed, some of them count.
        shared = set.intersection(*({manifest.path for manifest in each} for each in manifests.values()))
        deletes = {snapshot_id: self._live_deletes(snapshot_id) for snapshot_id, _ in ends}
        deletes_differ = deletes[step.start_snapshot_id] != deletes[step.end_snapshot_id]
        for snapshot_id, weight in ends:
            kept = [manifest for manifest in manifests[snapshot_id] if manifest.path in shared and deletes_differ]
            alone = [manifest for manifest in manifests[snapshot_id] if manifest.path not in shared]
            in_force = self._deletes.in_force_at(deletes[snapshot_id])
            for entry, reach in chain(self._with_reach(self._live(alone)), self._reached.entries(kept)):
                yield FileTerm(entry, weight, *in_force(reach))

    def _live(self, manifests: Iterable[ManifestFile]) -> Iterator[DataEntry]:
        for entries in self._read(live_data(manifests)):
            yield from (entry for entry in entries if entry.status is not EntryStatus.DELETED)

    def _with_reach(self, entries: Iterable[DataEntry]) -> Iterator[tuple[DataEntry, DeleteNumbers]]:
        return ((entry, self._deletes.reach(entry)) for entry in entries)

    def _changed_deletes(self, step: Step) -> DeleteNumbers:
        """The delete files that a step adds or removes."""
        if step.kind is StepKind.COMMIT:
            own = (self._own_deletes(snapshot_id) for snapshot_id in step.snapshot_ids)
            return NO_DELETES.union(*chain.from_iterable(own))
        if step.kind is StepKind.STATES and step.start_snapshot_id is not None:
            return self._live_deletes(step.start_snapshot_id) ^ self._live_deletes(step.end_snapshot_id)
        return NO_DELETES

    def _own_deletes(self, snapshot_id: int) -> tuple[DeleteNumbers, DeleteNumbers]:
        """The delete files that a snapshot added and removed."""
        manifests = [manifest for manifest in self._own_manifests(snapshot_id) if manifest.holds_deletes]
        entries = list(chain.from_iterable(map_parallel(self._reader.delete_entries, manifests)))
        added = self._deletes.numbers(entry for entry in entries if _is_own(entry, snapshot_id))
        return added, self._deletes.numbers(entry for entry in entries if entry.status is EntryStatus.DELETED)

    def _live_deletes(self, snapshot_id: int) -> DeleteNumbers:
        manifests = [m for m in self._manifests[snapshot_id] if m.holds_deletes and m.may_list_live_files]
        unread = [manifest for manifest in manifests if manifest.path not in self._live_in]
        for manifest, entries in zip(unread, map_parallel(self._reader.delete_entries, unread), strict=True):
            live = (entry for entry in entries if entry.status is not EntryStatus.DELETED)
            self._live_in[manifest.path] = self._deletes.numbers(live)
        return NO_DELETES.union(*(self._live_in[manifest.path] for manifest in manifests))

    def _own_manifests(self, snapshot_id: int) -> list[ManifestFile]:
        return [manifest for manifest in self._manifests[snapshot_id] if manifest.added_snapshot_id == snapshot_id]

    def _read(self, manifests: Iterable[ManifestFile]) -> list[list[DataEntry]]:
        return map_parallel(self._reader.data_entries, manifests)


def _is_own(entry: DataEntry | DeleteEntry, snapshot_id: int) -> bool:
    return entry.status is EntryStatus.ADDED and entry.snapshot_id == snapshot_id


def _is_any_listed_twice(terms: StepTerms) -> bool:
    """True if a file that stays is in two manifests, or has a term of its own."""
    paths = {term.entry.data_file.path for term in terms.single}
    num_paths = len(paths) + sum(len(files.entries) for files in terms.kept)
    return len(paths.union(*(files.paths for files in terms.kept))) < num_paths


def _net(terms: Iterable[FileTerm]) -> list[FileTerm]:
    """One term per data file and delete files in force, in the order of appearance; terms that cancel are dropped."""
    # What cancels here is never read: a file that one step adds and removes again, or that a rollback brings back.
    by_key: dict[tuple[str, DeleteNumbers], FileTerm] = {}
    for term in terms:
        key = term.entry.data_file.path, term.delete_files
        earlier = by_key.setdefault(key, term)
        if earlier is not term:
            entry = earlier.entry if earlier.entry.data_file.first_row_id is not None else term.entry
            by_key[key] = FileTerm(entry, earlier.weight + term.weight, term.delete_files)
    return [term for term in by_key.values() if term.weight]
