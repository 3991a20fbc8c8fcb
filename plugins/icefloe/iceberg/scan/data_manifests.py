"""The data files that the steps of a batch change, read from data manifests as each step asks for them."""

from collections.abc import Iterable, Sequence
from itertools import chain

from icefloe.iceberg.manifests.manifest_entries import DataEntry, ManifestFile
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.scan.changed_files import ComparedFiles, Difference, LoadedFiles, StepFiles
from icefloe.iceberg.scan.delete_file_index import NO_DELETES
from icefloe.iceberg.scan.delete_targets import DeleteTargets
from icefloe.iceberg.scan.live_deletes import Comparison, LiveDeletes, entries_before, live_entries
from icefloe.iceberg.scan.manifest_pruning import ManifestPruning
from icefloe.iceberg.step import Step, StepKind
from icefloe.storage.parallel import map_parallel

__all__ = ["DataManifests"]

_Content = tuple[str, int, int | None]


class DataManifests:
    """Reads data manifests; those with files that delete files reach are read once for all steps.

    Args:
        reader: reads them.
        deletes: of the states that the steps compare.
    """

    def __init__(self, reader: ManifestReader, deletes: LiveDeletes) -> None:
        self._reader = reader
        self._deletes = deletes
        self._pruning = ManifestPruning([*deletes.index.entries(deletes.changed)], reader.partition_types)
        self._met: set[str] = set()
        self._reached: dict[_Content, DeleteTargets] = {}
        self._recent: dict[_Content, list[DataEntry]] = {}

    def read(self, step: Step) -> StepFiles:
        """The files that count for a step.

        Raises:
            TerminalError, TransientError: as ``ManifestReader``, and as `entries_before`.
        """
        compared = self._deletes.compared[step]
        if step.kind is not StepKind.INITIAL:
            return ComparedFiles([self._difference(each) for each in compared])
        live = [entry for each in compared for entry in live_entries(self._read([], each.new)[1])]
        deletes = compared[0].deletes[1] if compared else NO_DELETES
        return LoadedFiles(entries=live, snapshot_id=step.end_snapshot_id, deletes=deletes, part=step.load_part)

    def _difference(self, of: Comparison) -> Difference:
        gone, new = self._read(of.gone, of.new)
        before = entries_before(new, of.after_id) if of.before_id is None else live_entries(gone)
        self._meet(chain(before, new))
        # The same manifest lists the same files, which cancel. Only if delete files changed, some of them count.
        kept = self._reached_in(of.kept) if of.deletes[0] != of.deletes[1] else ()
        return Difference(before=before, after=new, kept=kept, deletes=of.deletes)

    def _read(self, gone: Sequence[ManifestFile], new: Sequence[ManifestFile]) -> list[list[DataEntry]]:
        """The entries of manifests that only the earlier, and of those that only the later of two states lists."""
        listed = [[manifest for manifest in each if not manifest.holds_deletes] for each in (gone, new)]
        # The manifests that one commit wrote are those that the next one replaces.
        unread = [manifest for manifest in chain(*listed) if _content(manifest) not in self._recent]
        found = zip(map(_content, unread), map_parallel(self._reader.data_entries, unread), strict=True)
        self._recent |= found
        entries = [[entry for manifest in each for entry in self._recent[_content(manifest)]] for each in listed]
        self._recent = {_content(manifest): self._recent[_content(manifest)] for manifest in listed[1]}
        return entries

    def _reached_in(self, manifests: Iterable[ManifestFile]) -> list[DeleteTargets]:
        """Live files that a delete file can reach which the batch adds or removes, by manifest."""
        live = [manifest for manifest in manifests if not manifest.holds_deletes]
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
        entries = live_entries(self._reader.data_entries(manifest, self._pruning.paths(manifest)))
        # Here, not after the last manifest: a table of 100,000 files has as many entries, and a delete reaches few.
        reached = [(entry, reach) for entry in entries if any(in_force(reach := index.reach(entry)))]
        return DeleteTargets([entry for entry, _ in reached], [reach for _, reach in reached])


def _content(manifest: ManifestFile) -> _Content:
    """Key of a manifest's entries: a snapshot may give row ids to the files of a manifest that an earlier one wrote."""
    return manifest.path, manifest.sequence_number, manifest.first_row_id
