"""Data files that delete files of a batch can reach: found once, asked for in each step."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from icefloe.iceberg.manifests.manifest_entries import DataEntry, EntryStatus, ManifestFile
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.scan.delete_file_index import DeleteFileIndex, DeleteNumbers
from icefloe.iceberg.scan.manifest_pruning import ManifestPruning
from icefloe.storage.parallel import map_parallel

InForce = Callable[[DeleteNumbers], Sequence[DeleteNumbers]]
"""The delete files in force at some states on a data file of some reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """The live files of a manifest that stay in a step while delete files change.

    Attributes:
        entries: the files.
        paths: their paths; a path that the manifest lists twice is there once.
        reaches: reach of each file.
        changes: the delete files in force before and after the step, by reach; only if they differ.
    """

    entries: Sequence[DataEntry]
    paths: frozenset[str]
    reaches: Sequence[DeleteNumbers]
    changes: Mapping[DeleteNumbers, tuple[DeleteNumbers, DeleteNumbers]]

    def changing(self) -> Iterator[tuple[DataEntry, tuple[DeleteNumbers, DeleteNumbers]]]:
        """The files on which other delete files are in force after the step, with those before and after."""
        for entry, reach in zip(self.entries, self.reaches, strict=True):
            change = self.changes.get(reach)
            if change is not None:
                yield entry, change


@dataclass(slots=True)
class _Reached:
    """Entries of a manifest, and the reach of each among the first ``num_known`` delete files."""

    entries: Sequence[DataEntry]
    paths: frozenset[str] = field(init=False)
    added_by: frozenset[int | None] = field(init=False)
    reaches: Sequence[DeleteNumbers] = ()
    distinct: frozenset[DeleteNumbers] = frozenset()
    num_known: int = 0

    def __post_init__(self) -> None:
        self.paths = frozenset(entry.data_file.path for entry in self.entries)
        self.added_by = frozenset(entry.snapshot_id for entry in self.entries if entry.status is EntryStatus.ADDED)

    def look_up(self, deletes: DeleteFileIndex) -> None:
        """Looks up the reaches of all entries."""
        # A hundred steps ask for the same thousands of files, and seldom bring a delete file of which nothing knew.
        if self.num_known != deletes.num_known:
            self.reaches = [deletes.reach(entry) for entry in self.entries]
            self.distinct = frozenset(self.reaches)
            self.num_known = deletes.num_known

    def without_added_by(self, snapshot_id: int) -> "_Reached":
        """The same without files that a snapshot added."""
        if snapshot_id not in self.added_by:
            return self
        kept = [
            (entry, reach)
            for entry, reach in zip(self.entries, self.reaches, strict=True)
            if entry.status is not EntryStatus.ADDED or entry.snapshot_id != snapshot_id
        ]
        others = _Reached([entry for entry, _ in kept])
        others.reaches = [reach for _, reach in kept]
        others.distinct = frozenset(others.reaches)
        return others

    def between(self, in_force: InForce) -> KeptFiles:
        """The files in a step; ``in_force`` looks up the delete files before and after it."""
        pairs = ((reach, in_force(reach)) for reach in self.distinct)
        changes = {reach: (earlier, later) for reach, (earlier, later) in pairs if earlier != later}
        return KeptFiles(entries=self.entries, paths=self.paths, reaches=self.reaches, changes=changes)


class ReachedFiles:
    """Live files that a delete file can reach which the batch adds or removes; every manifest is read once.

    Args:
        reader: reads manifests.
        deletes: the delete files of the batch.
        pruning: leaves out manifests and entries that none of the changed ones reaches.
        changed: delete files that a step of the batch adds or removes.
    """

    def __init__(
        self, reader: ManifestReader, deletes: DeleteFileIndex, *, pruning: ManifestPruning, changed: DeleteNumbers
    ) -> None:
        self._reader = reader
        self._deletes = deletes
        self._pruning = pruning
        self._changed = changed
        self._by_content: dict[tuple[str, int | None], _Reached] = {}
        self._lock = Lock()

    def of(self, manifests: Iterable[ManifestFile]) -> list[_Reached]:
        """The files of each of some manifests, with their reaches among the delete files that are known by now."""
        wanted = [manifest for manifest in live_data(manifests) if self._pruning.includes(manifest)]
        unread = [manifest for manifest in wanted if _content(manifest) not in self._by_content]
        for manifest, entries in zip(unread, map_parallel(self._read, unread), strict=True):
            self._by_content[_content(manifest)] = _Reached(entries)
        found = [self._by_content[_content(manifest)] for manifest in wanted]
        for reached in found:
            reached.look_up(self._deletes)
        return found

    def entries(self, manifests: Iterable[ManifestFile]) -> Iterator[tuple[DataEntry, DeleteNumbers]]:
        """The files of some manifests, each with its reach."""
        for reached in self.of(manifests):
            yield from zip(reached.entries, reached.reaches, strict=True)

    def _read(self, manifest: ManifestFile) -> list[DataEntry]:
        entries = self._reader.data_entries(manifest, self._pruning.paths(manifest.spec_id))
        live = (entry for entry in entries if entry.status is not EntryStatus.DELETED)
        in_force = self._deletes.in_force_at(self._changed)
        # Here, not after the last manifest: a table of 100,000 files has as many entries, and a delete reaches few.
        with self._lock:
            return [entry for entry in live if any(in_force(self._deletes.reach(entry)))]


def live_data(manifests: Iterable[ManifestFile]) -> list[ManifestFile]:
    """Manifests that may list live data files."""
    return [manifest for manifest in manifests if not manifest.holds_deletes and manifest.may_list_live_files]


def _content(manifest: ManifestFile) -> tuple[str, int | None]:
    """Key of a manifest's entries: a snapshot may give row ids to the files of a manifest that an earlier one wrote."""
    return manifest.path, manifest.first_row_id
