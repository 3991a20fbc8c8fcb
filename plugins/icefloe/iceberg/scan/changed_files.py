"""Changes of one step to data files: the terms that count for it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from icefloe.errors import TerminalError
from icefloe.iceberg.manifests.manifest_reader import DataEntry, EntryStatus
from icefloe.iceberg.scan.delete_file_index import DeleteFileIndex, DeleteNumbers
from icefloe.iceberg.step import Step

InForce = Callable[[DeleteNumbers], Sequence[DeleteNumbers]]
"""The delete files in force at some states on a data file of some reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """The live files of a manifest that stay in a step while delete files change.

    Attributes:
        changes: the delete files in force before and after the step, by reach; only if they differ.
    """

    entries: Sequence[DataEntry]
    paths: frozenset[str]
    reaches: Sequence[DeleteNumbers]
    changes: Mapping[DeleteNumbers, tuple[DeleteNumbers, DeleteNumbers]]

    def changing(self) -> Iterator[tuple[DataEntry, tuple[DeleteNumbers, DeleteNumbers]]]:
        """Files with other delete files in force, with those before and after."""
        for entry, reach in zip(self.entries, self.reaches, strict=True):
            change = self.changes.get(reach)
            if change is not None:
                yield entry, change


@dataclass(frozen=True)
class DeleteTargets:
    """Live files of one manifest that delete files of the batch can reach, with their reach.

    A hundred steps ask for the same thousands of files: one answer holds for all.
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
        """``in_force`` gives the delete files before and after the step."""
        pairs = ((reach, in_force(reach)) for reach in self.distinct)
        changes = {reach: (earlier, later) for reach, (earlier, later) in pairs if earlier != later}
        return KeptFiles(entries=self.entries, paths=self.paths, reaches=self.reaches, changes=changes)


class FileTerm(NamedTuple):
    """The rows of a data file that are live with some delete files, and their weight.

    A step's change is a sum: an added file is +1, a removed file -1, with the delete files in force. A file whose
    delete files change is -1 with the old ones and +1 with the new ones.

    Attributes:
        weight: +1 or -1, or more if a table lists a file more than once.
    """

    # Thousands of them may be made. A frozen dataclass takes three times as long to make.
    entry: DataEntry
    weight: int
    delete_files: DeleteNumbers


class StepTerms(NamedTuple):
    """The terms of one step: single files, then files that stay while their delete files change.

    One delete file of keys may change all data files of a table: their terms are not made one by one.
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


class Difference(NamedTuple):
    """The data files in which two states of a table can differ.

    Attributes:
        before: live files of manifests in the earlier state only.
        after: files of manifests in the later state only, DELETED ones too.
        kept: files of other manifests that delete files of one state only reach, by manifest.
    """

    before: Sequence[DataEntry]
    after: Sequence[DataEntry]
    kept: Sequence[DeleteTargets]
    deletes: tuple[DeleteNumbers, DeleteNumbers]


def compared_terms(differences: Sequence[Difference], index: DeleteFileIndex) -> StepTerms:
    """The terms whose sum is the change of a step, without those that cancel.

    Args:
        differences: of each pair of states that the step consists of, oldest first.
    """
    found = [_difference(each, index) for each in differences]
    # A file that is listed twice may have terms that cancel or add up.
    if len(found) == 1 and not _is_any_listed_twice(found[0]):
        return found[0]._replace(single=_net(found[0].single))
    return StepTerms(_net(chain.from_iterable(terms.each() for terms in found)))


def loaded_terms(entries: Sequence[DataEntry], deletes: DeleteNumbers, index: DeleteFileIndex, step: Step) -> StepTerms:
    """The terms of a load, or of a part of it.

    Args:
        entries: the live files of the state, in manifest order.
        deletes: the live delete files.
    """
    in_force, part = index.in_force_at(deletes), step.load_part
    terms = _net(FileTerm(entry, 1, *in_force(index.reach(entry))) for entry in entries)
    if part is None:
        return StepTerms(terms)
    # A file that is listed twice has two terms if a delete file reaches only one of them, but it is read once.
    by_file: dict[str, list[FileTerm]] = {}
    for term in terms:
        by_file.setdefault(term.entry.data_file.identity, []).append(term)
    if part.num_files != len(by_file):
        raise TerminalError(
            f"the initial load of snapshot {step.end_snapshot_id} was cut for {part.num_files} data files, but its "
            f"manifests list {len(by_file)}: a snapshot never changes, so they were overwritten; icefloe reset loads "
            "the table again"
        )
    return StepTerms([*chain.from_iterable([*by_file.values()][part.first_file : part.stop_file])])


def _difference(files: Difference, index: DeleteFileIndex) -> StepTerms:
    # A snapshot that removes file a, adds file b, and adds a delete file d that reaches a and c:
    #   a   -1 with the delete files before
    #   b   +1 with the delete files after
    #   c   -1 before, +1 after: what is left of it are the rows that d deletes, as -1
    in_force, is_unreached = index.in_force_at(*files.deletes), files.deletes[0] == files.deletes[1]
    left = defaultdict(list)
    for entry in files.before:
        left[_key(entry)].append(entry)
    single = []
    for entry in files.after:
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
    return StepTerms(single, [kept.between(in_force) for kept in files.kept])


def _key(entry: DataEntry) -> tuple[object, ...]:
    """Equal keys: the same rows, reached by the same delete files."""
    return entry.data_file.path, entry.data_file.sequence_number, entry.partition


def _is_any_listed_twice(terms: StepTerms) -> bool:
    """In two manifests, or with a term of its own."""
    paths = {term.entry.data_file.path for term in terms.single}
    num_paths = len(paths) + sum(len(files.entries) for files in terms.kept)
    return len(paths.union(*(files.paths for files in terms.kept))) < num_paths


def _net(terms: Iterable[FileTerm]) -> list[FileTerm]:
    """One term per data file and delete files in force, without cancelled ones."""
    # What cancels here is never read: a file that one step adds and removes again, or that a rollback brings back.
    by_key: dict[tuple[str, DeleteNumbers], FileTerm] = {}
    for term in terms:
        key = term.entry.data_file.identity, term.delete_files
        earlier = by_key.setdefault(key, term)
        if earlier is not term:
            entry = earlier.entry if earlier.entry.data_file.first_row_id is not None else term.entry
            by_key[key] = FileTerm(entry, earlier.weight + term.weight, term.delete_files)
    return [term for term in by_key.values() if term.weight]
