"""The data files that the steps of a batch change, read from data manifests as each step asks for them."""

from collections.abc import Iterable, Iterator, Sequence

from icefloe.iceberg.manifests.manifest_entries import DataEntry, EntryStatus, ManifestFile
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.scan.changed_files import CommittedFiles, ComparedFiles, LoadedFiles, StateFiles, StepFiles
from icefloe.iceberg.scan.delete_targets import DeleteTargets
from icefloe.iceberg.scan.live_deletes import LiveDeletes, Manifests, own_manifests
from icefloe.iceberg.scan.manifest_pruning import ManifestPruning
from icefloe.iceberg.step import Step, StepKind
from icefloe.storage.parallel import map_parallel

__all__ = ["DataManifests"]


class DataManifests:
    """Reads data manifests; those with files that delete files reach are read once for all steps.

    Args:
        manifests: of the states that the steps compare.
        reader: reads them.
        deletes: of the same steps.

    Attributes:
        warnings: one sentence each, of the manifests that were read so far.
    """

    def __init__(self, manifests: Manifests, reader: ManifestReader, deletes: LiveDeletes) -> None:
        self._manifests = manifests
        self._reader = reader
        self._deletes = deletes
        self._pruning = ManifestPruning([*deletes.index.entries(deletes.changed)], reader.partition_types)
        self._met: set[str] = set()
        self._reached: dict[tuple[str, int | None], DeleteTargets] = {}
        self.warnings: list[str] = []

    def read(self, step: Step) -> StepFiles:
        """The files that count for a step.

        Raises:
            TerminalError, TransientError: as ``ManifestReader``.
        """
        match step.kind:
            case StepKind.COMMIT:
                return CommittedFiles({each: self._committed(each) for each in step.snapshot_ids})
            case StepKind.STATES:
                return self._compared(step)
            case StepKind.INITIAL:
                live = list(self._live(self._manifests[step.end_snapshot_id]))
                return LoadedFiles(entries=live, snapshot_id=step.end_snapshot_id, part=step.load_part)

    def _committed(self, snapshot_id: int) -> StateFiles:
        own = list(self._own_entries(snapshot_id))
        self._meet(entry for entry in own if entry.status is not EntryStatus.EXISTING)
        is_reaching = any(self._deletes.own[snapshot_id])
        return StateFiles(own, self._reached_in(self._manifests[snapshot_id]) if is_reaching else ())

    def _compared(self, step: Step) -> ComparedFiles:
        """The files of two states; in manifests of both, only those that changed delete files reach."""
        ends = [each for each in (step.start_snapshot_id, step.end_snapshot_id) if each is not None]
        before, after = (self._manifests[each] for each in ends)
        # The same manifest lists the same files, which cancel. Only if delete files changed, some of them count.
        shared = {manifest.path for manifest in before} & {manifest.path for manifest in after}
        deletes_differ = len({self._deletes.live[each] for each in ends}) > 1
        states = [
            StateFiles(
                list(self._live(manifest for manifest in manifests if manifest.path not in shared)),
                self._reached_in(m for m in manifests if m.path in shared) if deletes_differ else (),
            )
            for manifests in (before, after)
        ]
        return ComparedFiles(dict(zip(ends, states, strict=True)))

    def _own_entries(self, snapshot_id: int) -> Iterator[DataEntry]:
        own = own_manifests(self._manifests, snapshot_id)
        changing = [manifest for manifest in own if not manifest.holds_deletes and manifest.may_change_files]
        for manifest, entries in zip(changing, map_parallel(self._reader.data_entries, changing), strict=True):
            foreign = [e for e in entries if e.status is EntryStatus.ADDED and e.snapshot_id != snapshot_id]
            if foreign:
                self.warnings.append(
                    f"manifest {manifest.path} of snapshot {snapshot_id} lists {len(foreign)} data files as added by "
                    "other snapshots: they are not counted as its changes"
                )
            yield from entries

    def _live(self, manifests: Iterable[ManifestFile]) -> Iterator[DataEntry]:
        for entries in map_parallel(self._reader.data_entries, _live_data(manifests)):
            self._meet(entries)
            yield from _live_entries(entries)

    def _reached_in(self, manifests: Iterable[ManifestFile]) -> list[DeleteTargets]:
        """Live files that a delete file can reach which the batch adds or removes, by manifest."""
        live = _live_data(manifests)
        found = self._targets([manifest for manifest in live if self._pruning.includes(manifest)])
        for reached in found:
            self._meet(reached.entries)
        if not self._met.issuperset(self._pruning.named.names):
            # A data file that is named is gone, or its delete file is of another partition: the path counts.
            found += self._targets([manifest for manifest in live if not self._pruning.includes(manifest)])
        return found

    def _targets(self, manifests: Sequence[ManifestFile]) -> list[DeleteTargets]:
        unread = [manifest for manifest in manifests if _content(manifest) not in self._reached]
        for manifest, reached in zip(unread, map_parallel(self._read_reached, unread), strict=True):
            self._reached[_content(manifest)] = reached
        return [self._reached[_content(manifest)] for manifest in manifests]

    def _meet(self, entries: Iterable[DataEntry]) -> None:
        """Remembers named data files that are where their delete files say: if all are, nobody looks elsewhere."""
        if self._pruning.named.names:
            self._met.update(entry.data_file.path for entry in entries if self._pruning.is_in_place(entry))

    def _read_reached(self, manifest: ManifestFile) -> DeleteTargets:
        index, in_force = self._deletes.index, self._deletes.index.in_force_at(self._deletes.changed)
        entries = _live_entries(self._reader.data_entries(manifest, self._pruning.paths(manifest)))
        # Here, not after the last manifest: a table of 100,000 files has as many entries, and a delete reaches few.
        reached = [(entry, reach) for entry in entries if any(in_force(reach := index.reach(entry)))]
        return DeleteTargets([entry for entry, _ in reached], [reach for _, reach in reached])


def _live_entries(entries: Iterable[DataEntry]) -> Iterator[DataEntry]:
    return (entry for entry in entries if entry.status is not EntryStatus.DELETED)


def _live_data(manifests: Iterable[ManifestFile]) -> list[ManifestFile]:
    return [manifest for manifest in manifests if not manifest.holds_deletes and manifest.may_list_live_files]


def _content(manifest: ManifestFile) -> tuple[str, int | None]:
    """Key of a manifest's entries: a snapshot may give row ids to the files of a manifest that an earlier one wrote."""
    return manifest.path, manifest.first_row_id
