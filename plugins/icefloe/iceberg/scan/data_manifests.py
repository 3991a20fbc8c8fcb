"""The data files that the steps change, read from manifests on demand."""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from itertools import chain

from pyiceberg.types import PrimitiveType

from icefloe.iceberg.data_file import Constant, FileContent
from icefloe.iceberg.filters.column_range import ColumnRange
from icefloe.iceberg.manifests.manifest_entries import DataEntry, DeleteEntry, ManifestFile
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.manifests.manifest_values import decoded_bound, partition_range
from icefloe.iceberg.manifests.pyiceberg_avro import FieldSummary
from icefloe.iceberg.scan.changed_files import ComparedFiles, DeleteTargets, Difference, LoadedFiles, StepFiles
from icefloe.iceberg.scan.delete_file_index import NO_DELETES, DataFileNames, may_meet
from icefloe.iceberg.scan.live_deletes import Comparison, LiveDeletes, entries_before, live_entries
from icefloe.iceberg.step import Step, StepKind
from icefloe.storage.requests import map_parallel


class ManifestPruning:
    """Partitions and paths of data files that some delete files can reach.

    Equality deletes of an unpartitioned spec reach every file, others the files of their partition.

    Attributes:
        named: data files that delete files name; they count whatever their partition is.
    """

    def __init__(
        self, delete_files: Collection[DeleteEntry], types: Mapping[int, Sequence[PrimitiveType | None]]
    ) -> None:
        self._types = types
        self._is_global = False
        self._partitions: dict[int, set[tuple[Constant, ...]]] = defaultdict(set)
        self._reaches_partitions: set[int] = set()
        self._ranges: dict[int, Sequence[Sequence[ColumnRange]]] = {}
        self._included: dict[str, bool] = {}
        names = (entry.only_data_file for entry in delete_files)
        self.named = DataFileNames(name for name in names if name is not None)
        for entry in delete_files:
            spec_id, values = entry.partition
            self._partitions[spec_id].add(values)
            if entry.delete_file.content is FileContent.EQUALITY_DELETES and entry.is_unpartitioned:
                self._is_global = True
            elif entry.only_data_file is None:
                self._reaches_partitions.add(spec_id)

    def includes(self, manifest: ManifestFile) -> bool:
        """False only if a manifest lists no file that is reached.

        A file that a delete file of another partition names is left aside.
        """
        if self._is_global:
            return True
        if manifest.path not in self._included:
            self._included[manifest.path] = self._may_list(manifest)
        return self._included[manifest.path]

    def is_in_place(self, entry: DataEntry) -> bool:
        """True if a file is named, and every manifest that lists it in its partition is included."""
        spec_id, values = entry.partition
        return entry.data_file.path in self.named.names and values in self._partitions.get(spec_id, ())

    def paths(self, manifest: ManifestFile) -> Container[str] | None:
        """The only files of a manifest that can be reached; None: any file."""
        is_any = self._is_global or manifest.spec_id in self._reaches_partitions
        return None if is_any and self.includes(manifest) else self.named

    def _may_list(self, manifest: ManifestFile) -> bool:
        types, summaries = self._types.get(manifest.spec_id, ()), manifest.partitions
        # Deletes in the partitions day=3 and day=9: a manifest that lists the days 1 to 5 is read, one with 6 to 8 is
        # not.
        wanted = self._wanted_ranges(manifest.spec_id)
        if summaries is None or len(summaries) != len(types):
            return bool(wanted)
        listed = [_listed(kind, summary) for kind, summary in zip(types, summaries, strict=True)]
        return any(all(map(may_meet, ranges, listed)) for ranges in wanted)

    def _wanted_ranges(self, spec_id: int) -> Sequence[Sequence[ColumnRange]]:
        if spec_id not in self._ranges:
            types = self._types.get(spec_id, ())
            self._ranges[spec_id] = [
                [
                    ColumnRange() if kind is None else partition_range(kind, value)
                    for kind, value in zip(types, values, strict=False)
                ]
                for values in self._partitions.get(spec_id, ())
            ]
        return self._ranges[spec_id]


def _listed(kind: PrimitiveType | None, summary: FieldSummary) -> ColumnRange:
    """NaN is outside the bounds."""
    if kind is None:
        return ColumnRange()
    return ColumnRange(
        lower=None if summary.lower_bound is None else decoded_bound(kind, summary.lower_bound),
        upper=None if summary.upper_bound is None else decoded_bound(kind, summary.upper_bound),
        may_hold_nulls=summary.contains_null,
    )


_Content = tuple[str, int, int | None]


class DataManifests:
    """Reads data manifests; those that delete files reach are read once for all steps."""

    def __init__(self, reader: ManifestReader, deletes: LiveDeletes) -> None:
        self._reader = reader
        self._deletes = deletes
        self._pruning = ManifestPruning([*deletes.index.entries(deletes.changed)], reader.partition_types)
        self._met: set[str] = set()
        self._reached: dict[_Content, DeleteTargets] = {}
        self._recent: dict[_Content, list[DataEntry]] = {}

    def read(self, step: Step) -> StepFiles:
        """The files that count for a step."""
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
        listed = [[manifest for manifest in each if not manifest.holds_deletes] for each in (gone, new)]
        # The manifests that one commit wrote are those that the next one replaces.
        unread = [manifest for manifest in chain(*listed) if _content(manifest) not in self._recent]
        found = zip(map(_content, unread), map_parallel(self._reader.data_entries, unread), strict=True)
        self._recent |= found
        entries = [[entry for manifest in each for entry in self._recent[_content(manifest)]] for each in listed]
        self._recent = {_content(manifest): self._recent[_content(manifest)] for manifest in listed[1]}
        return entries

    def _reached_in(self, manifests: Iterable[ManifestFile]) -> list[DeleteTargets]:
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
        """If all named files are in their delete files' partitions, nobody looks elsewhere."""
        if self._pruning.named.names:
            self._met.update(entry.data_file.path for entry in entries if self._pruning.is_in_place(entry))

    def _read_reached(self, manifest: ManifestFile) -> DeleteTargets:
        index, in_force = self._deletes.index, self._deletes.index.in_force_at(self._deletes.changed)
        entries = live_entries(self._reader.data_entries(manifest, self._pruning.paths(manifest)))
        # Here, not after the last manifest: a table of 100,000 files has as many entries, and a delete reaches few.
        reached = [(entry, reach) for entry in entries if any(in_force(reach := index.reach(entry)))]
        return DeleteTargets([entry for entry, _ in reached], [reach for _, reach in reached])


def _content(manifest: ManifestFile) -> _Content:
    """A later snapshot may give row ids to an older manifest's files."""
    return manifest.path, manifest.sequence_number, manifest.first_row_id
