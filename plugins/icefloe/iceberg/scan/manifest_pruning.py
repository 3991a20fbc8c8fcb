"""Data manifests, and entries in them, that some delete files can reach; by partition and by path."""

from collections import defaultdict
from collections.abc import Collection, Container, Mapping, Sequence

from pyiceberg.types import PrimitiveType

from icefloe.iceberg.data_file import Constant
from icefloe.iceberg.delete_file import FileContent
from icefloe.iceberg.filters.column_range import ColumnRange
from icefloe.iceberg.manifests.bounds import decoded_bound
from icefloe.iceberg.manifests.manifest_entries import DataEntry, DeleteEntry, ManifestFile
from icefloe.iceberg.manifests.partition_values import partition_range
from icefloe.iceberg.manifests.pyiceberg_avro import FieldSummary
from icefloe.iceberg.scan.delete_file_index import DataFileNames
from icefloe.iceberg.scan.key_bounds import may_meet


class ManifestPruning:
    """Partitions and paths of the data files that some delete files can reach.

    Args:
        delete_files: equality deletes of an unpartitioned spec reach every file, others the files of their partition.
        types: of partition values by spec id; None if a type is not known.

    Attributes:
        named: the data files that delete files name, which count by the path, whatever their partition is.
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
        """True if a data manifest may list a file that is reached; False only if it lists none.

        A file that a delete file of another partition names is left aside.
        """
        if self._is_global:
            return True
        if manifest.path not in self._included:
            self._included[manifest.path] = self._may_list(manifest)
        return self._included[manifest.path]

    def is_in_place(self, entry: DataEntry) -> bool:
        """True if a data file is named, and every manifest that lists it in its partition is included."""
        spec_id, values = entry.partition
        return entry.data_file.path in self.named.names and values in self._partitions.get(spec_id, ())

    def paths(self, manifest: ManifestFile) -> Container[str] | None:
        """The only files of a manifest that can be reached; None if any file may be reached."""
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
    """Range of the partition values in one field of a manifest's files; NaN is not within the bounds."""
    if kind is None:
        return ColumnRange()
    return ColumnRange(
        lower=None if summary.lower_bound is None else decoded_bound(kind, summary.lower_bound),
        upper=None if summary.upper_bound is None else decoded_bound(kind, summary.upper_bound),
        may_hold_nulls=summary.contains_null,
    )
