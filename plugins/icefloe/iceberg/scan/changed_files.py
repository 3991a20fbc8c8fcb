"""Changes of one step to data files: the terms that count for it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from icefloe.errors import TerminalError
from icefloe.iceberg.manifests.manifest_reader import DataEntry, EntryStatus
from icefloe.iceberg.scan.delete_file_index import DeleteFileIndex, DeleteNumbers
from icefloe.iceberg.step import Step


@dataclass(frozen=True, eq=False)
class DeleteTargets:
    """Live files of one manifest that delete files of the batch can reach, with their reach; shared by all steps."""

    entries: Sequence[DataEntry]
    reaches: Sequence[DeleteNumbers]

    @cached_property
    def paths(self) -> frozenset[str]:
        """The paths of the files."""
        return frozenset(entry.file.path for entry in self.entries)

    @cached_property
    def distinct(self) -> frozenset[DeleteNumbers]:
        """The reaches, each once."""
        return frozenset(self.reaches)


class KeptFiles(NamedTuple):
    """Files that stay in a step while delete files change."""

    targets: DeleteTargets
    # The delete files in force before and after the step, by reach; only if they differ.
    changes: Mapping[DeleteNumbers, tuple[DeleteNumbers, DeleteNumbers]]


class FileTerm(NamedTuple):
    """The rows of a data file that are live with some delete files, and their weight; a step's change is their sum."""

    # A file whose delete files change is -1 with the old ones and +1 with the new ones.
    # Thousands of them may be made. A frozen dataclass takes three times as long to make.
    entry: DataEntry
    weight: int  # +1 (added) or -1 (removed), or more if a table lists a file more than once
    delete_files: DeleteNumbers


class StepTerms(NamedTuple):
    """The terms of one step: single files, then files that stay while their delete files change."""

    single: Sequence[FileTerm]
    # Not made one by one: one delete file of keys may change all data files of a table.
    kept: Sequence[KeptFiles] = ()

    def each(self) -> Iterator[FileTerm]:
        """All terms, file by file."""
        yield from self.single
        for targets, changes in self.kept:
            for entry, reach in zip(targets.entries, targets.reaches, strict=True):
                if reach in changes:
                    earlier, later = changes[reach]
                    yield FileTerm(entry, -1, earlier)
                    yield FileTerm(entry, 1, later)


def summed(found: Sequence[StepTerms]) -> StepTerms:
    """The terms of one step from those of its pairs of states, oldest first, without those that cancel."""
    # A file that is listed twice may have terms that cancel or add up.
    if len(found) == 1 and not _is_any_listed_twice(found[0]):
        return found[0]._replace(single=_net(found[0].single))
    return StepTerms(_net(chain.from_iterable(terms.each() for terms in found)))


def loaded_terms(entries: Sequence[DataEntry], deletes: DeleteNumbers, index: DeleteFileIndex, step: Step) -> StepTerms:
    """The terms of a load, or of a part of it, from its live files in manifest order and its live delete files."""
    in_force, part = index.in_force_at(deletes), step.load_part
    terms = _net(FileTerm(entry, 1, *in_force(index.reach(entry))) for entry in entries)
    if part is None:
        return StepTerms(terms)
    # A file that is listed twice has two terms if a delete file reaches only one of them, but it is read once.
    by_file: dict[str, list[FileTerm]] = {}
    for term in terms:
        by_file.setdefault(term.entry.file.identity, []).append(term)
    if part.num_files != len(by_file):
        raise TerminalError(
            f"the initial load of snapshot {step.end_snapshot_id} was cut for {part.num_files} data files, but its "
            f"manifests list {len(by_file)}: a snapshot never changes, so they were overwritten; icefloe reset loads "
            "the table again"
        )
    return StepTerms([*chain.from_iterable([*by_file.values()][part.first_file : part.stop_file])])


def compared_terms(
    before: Iterable[DataEntry],  # live files of manifests in the earlier state only
    after: Iterable[DataEntry],  # files of manifests in the later state only, DELETED ones too
    kept: Iterable[DeleteTargets],  # files of other manifests that delete files of one state only reach
    deletes: tuple[DeleteNumbers, DeleteNumbers],  # the live delete files before and after
    index: DeleteFileIndex,
) -> StepTerms:
    """The terms of two states of a table."""
    # A snapshot that removes file a, adds file b, and adds a delete file d that reaches a and c:
    #   a   -1 with the delete files before
    #   b   +1 with the delete files after
    #   c   -1 before, +1 after: what is left of it are the rows that d deletes, as -1
    in_force, is_unreached = index.in_force_at(*deletes), deletes[0] == deletes[1]
    left = defaultdict(list)
    for entry in before:
        left[_key(entry)].append(entry)
    single = []
    for entry in after:
        # Manifests of the later state give the order and the row ids. Whether they call a file new does not count.
        was_live, is_live = left.get(_key(entry)), entry.status is not EntryStatus.DELETED
        if was_live:
            was_live.pop()
            if is_live and is_unreached:
                continue
            single.append(FileTerm(entry, -1, in_force(index.reach(entry))[0]))
        if is_live:
            single.append(FileTerm(entry, 1, in_force(index.reach(entry))[1]))
    dropped = chain.from_iterable(left.values())
    single += [FileTerm(entry, -1, in_force(index.reach(entry))[0]) for entry in dropped]
    found = []
    for targets in kept:
        pairs = ((reach, in_force(reach)) for reach in targets.distinct)
        changes = {reach: (earlier, later) for reach, (earlier, later) in pairs if earlier != later}
        found.append(KeptFiles(targets, changes))
    return StepTerms(single, found)


def _key(entry: DataEntry) -> tuple[object, ...]:
    """Equal keys: the same rows, reached by the same delete files."""
    return entry.file.path, entry.file.sequence_number, entry.partition


def _is_any_listed_twice(terms: StepTerms) -> bool:
    """In two manifests, or with a term of its own."""
    paths = {term.entry.file.path for term in terms.single}
    num_paths = len(paths) + sum(len(targets.entries) for targets, _ in terms.kept)
    return len(paths.union(*(targets.paths for targets, _ in terms.kept))) < num_paths


def _net(terms: Iterable[FileTerm]) -> list[FileTerm]:
    """One term per data file and delete files in force, without cancelled ones."""
    # What cancels here is never read: a file that one step adds and removes again, or that a rollback brings back.
    by_key: dict[tuple[str, DeleteNumbers], FileTerm] = {}
    for term in terms:
        key = term.entry.file.identity, term.delete_files
        earlier = by_key.setdefault(key, term)
        if earlier is not term:
            entry = earlier.entry if earlier.entry.file.first_row_id is not None else term.entry
            by_key[key] = FileTerm(entry, earlier.weight + term.weight, term.delete_files)
    return [term for term in by_key.values() if term.weight]
