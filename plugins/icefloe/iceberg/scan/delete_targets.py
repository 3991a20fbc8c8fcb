"""Data files that delete files of a batch can reach: found once, asked for in each step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from icefloe.iceberg.manifests.manifest_entries import DataEntry
from icefloe.iceberg.scan.delete_file_index import DeleteNumbers

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


@dataclass(frozen=True)
class DeleteTargets:
    """Live files of one manifest that delete files of the batch can reach, and the reach of each.

    A hundred steps ask for the same thousands of files: what is found for one step holds for all.
    """

    entries: Sequence[DataEntry]
    reaches: Sequence[DeleteNumbers]

    @cached_property
    def paths(self) -> frozenset[str]:
        """The paths of the files."""
        return frozenset(entry.data_file.path for entry in self.entries)

    @cached_property
    def distinct(self) -> frozenset[DeleteNumbers]:
        """The reaches, each once."""
        return frozenset(self.reaches)

    def between(self, in_force: InForce) -> KeptFiles:
        """The files in a step; ``in_force`` looks up the delete files before and after it."""
        pairs = ((reach, in_force(reach)) for reach in self.distinct)
        changes = {reach: (earlier, later) for reach, (earlier, later) in pairs if earlier != later}
        return KeptFiles(entries=self.entries, paths=self.paths, reaches=self.reaches, changes=changes)
