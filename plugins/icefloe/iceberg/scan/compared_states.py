"""The states that a batch compares: their delete files, then the data files in which they differ."""

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple, Self, TypeVar

from pyiceberg.types import PrimitiveType

from icefloe.errors import TerminalError
from icefloe.iceberg.data_file import Constant, FileContent
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.manifests.manifest_avro import FieldSummary
from icefloe.iceberg.manifests.manifest_reader import (
    DataEntry,
    DeleteEntry,
    DeleteId,
    EntryStatus,
    ManifestFile,
    ManifestReader,
)
from icefloe.iceberg.manifests.manifest_values import ColumnRange, decoded_bound, partition_range
from icefloe.iceberg.scan.changed_files import DeleteTargets, FileTerm, StepTerms, compared_terms, loaded_terms, summed
from icefloe.iceberg.scan.delete_file_index import NO_DELETES, DeleteFileIndex, DeleteNumbers, may_meet
from icefloe.iceberg.step import Step, StepKind, ancestry
from icefloe.storage.requests import map_parallel

Entry = TypeVar("Entry", DataEntry, DeleteEntry)


class ListedStates(NamedTuple):
    """Manifests by snapshot id, and the state before each commit, unless it has expired."""

    manifests: Mapping[int, Sequence[ManifestFile]]
    parents: Mapping[int, int]

    @classmethod
    def of(cls, steps: Iterable[Step], table: LoadedTable) -> Self:
        """The states that steps compare; reads their manifest lists at once."""
        # The start of a commit may expire while its batch is open: only a comparison of states cannot do without it.
        starts = {step.start_snapshot_id for step in steps if step.kind is StepKind.STATES} - {None}
        commits = [each for step in steps if step.kind is StepKind.COMMIT for each in step.snapshot_ids]
        before = {each: [*islice(ancestry(table.history.snapshots, each), 1, 2)] for each in commits}
        known = {each: parent.snapshot_id for each, found in before.items() for parent in found}
        needed = starts | {*known.values()} | {snapshot_id for step in steps for snapshot_id in step.snapshot_ids}
        found = [table.history.snapshot(snapshot_id) for snapshot_id in needed if snapshot_id is not None]
        lists = map_parallel(table.manifests.manifests, found)
        return cls({s.snapshot_id: manifests for s, manifests in zip(found, lists, strict=True)}, known)

    def compared(self, step: Step) -> list["Comparison"]:
        """Pairs of states whose differences add up to a step, without those with the same manifests."""
        if step.kind is StepKind.COMMIT:
            pairs = [(self.parents.get(each), each) for each in step.snapshot_ids]
        else:
            pairs = [(step.start_snapshot_id, step.end_snapshot_id)]
        found = [self._compared(*pair, is_load=step.kind is StepKind.INITIAL) for pair in pairs]
        return [each for each in found if each.gone or each.new]

    def _compared(self, before_id: int | None, after_id: int, *, is_load: bool) -> "Comparison":
        after = self.manifests[after_id]
        if before_id is not None:
            before = self.manifests[before_id]
            gone, new = _only_in(before, after), _only_in(after, before)
        else:
            gone, new = [], [each for each in after if is_load or each.added_snapshot_id == after_id]
        return Comparison(before_id=before_id, after_id=after_id, gone=gone, new=new, kept=_only_in(after, new))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two states whose difference is a change, and the manifests in which they can differ."""

    # Live files count, as for every reader; the manifests of a commit may say otherwise.
    before_id: int | None  # the earlier state; None if it has expired, or the table was empty
    after_id: int
    gone: Sequence[ManifestFile]
    new: Sequence[ManifestFile]  # without an earlier state, those that its snapshot wrote
    kept: Sequence[ManifestFile]
    deletes: tuple[DeleteNumbers, DeleteNumbers] = (NO_DELETES, NO_DELETES)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDeletes:
    """The compared states; ``changed`` has the delete files that a step adds or removes."""

    index: DeleteFileIndex
    compared: Mapping[Step, Sequence[Comparison]]
    changed: DeleteNumbers

    @classmethod
    def read(cls, steps: Sequence[Step], states: ListedStates, reader: ManifestReader) -> Self:
        """Reads the delete manifests of the compared states, each once."""
        compared = {step: states.compared(step) for step in steps}
        ids = dict.fromkeys(each for pair in chain(*compared.values()) for each in (pair.before_id, pair.after_id))
        listed = {each: [m for m in states.manifests[each] if m.holds_deletes] for each in ids if each is not None}
        wanted = {manifest.path: manifest for manifest in chain(*listed.values())}
        entries = dict(zip(wanted, map_parallel(reader.delete_entries, wanted.values()), strict=True))
        numbers = _Numbers()
        # Hundreds of states may share a manifest.
        live_in = {path: numbers.of(live_entries(found)) for path, found in entries.items()}
        live = {each: NO_DELETES.union(*(live_in[m.path] for m in listed[each])) for each in listed}

        def before(step: Step, pair: Comparison) -> DeleteNumbers:
            if pair.before_id is not None or step.kind is StepKind.INITIAL:
                return live.get(pair.before_id or -1, NO_DELETES)
            own = [*chain.from_iterable(entries[m.path] for m in pair.new if m.holds_deletes)]
            kept = live[pair.after_id] - numbers.of(live_entries(own))
            return kept | numbers.of(entries_before(own, pair.after_id))

        compared = {
            step: [replace(pair, deletes=(before(step, pair), live[pair.after_id])) for pair in pairs]
            for step, pairs in compared.items()
        }
        changes = (
            earlier ^ later
            for step, pairs in compared.items() if step.kind is not StepKind.INITIAL
            for earlier, later in (pair.deletes for pair in pairs)
        )  # fmt: skip
        return cls(
            index=DeleteFileIndex(numbers.entries, reader.key_types),
            compared=compared,
            changed=NO_DELETES.union(*changes),
        )


class _Numbers:
    """In the order in which it meets delete files."""

    def __init__(self) -> None:
        self.entries: list[DeleteEntry] = []
        self._known: dict[tuple[DeleteId, int], int] = {}

    def of(self, entries: Iterable[DeleteEntry]) -> DeleteNumbers:
        return DeleteNumbers([self._number(entry) for entry in entries])

    def _number(self, entry: DeleteEntry) -> int:
        # A snapshot that was cherry-picked lists the delete files of another one under new sequence numbers.
        key = entry.identity, entry.file.sequence_number
        number = self._known.setdefault(key, len(self.entries))
        if number == len(self.entries):
            self.entries.append(entry)
        return number


def live_entries(entries: Iterable[Entry]) -> list[Entry]:
    """The entries of files that are live."""
    return [entry for entry in entries if entry.status is not EntryStatus.DELETED]


def entries_before(own: Iterable[Entry], snapshot_id: int) -> list[Entry]:
    """The entries of files live before, if only the snapshot's own manifests are left."""
    found = [entry for entry in own if entry.status is not EntryStatus.ADDED]
    for entry in own:
        # PyIceberg up to 0.11.1 gave DELETED entries the id of the snapshot that had added the file.
        is_own = entry.snapshot_id == snapshot_id
        if entry.status is not EntryStatus.DELETED and is_own is not (entry.status is EntryStatus.ADDED):
            raise TerminalError(
                f"snapshot {snapshot_id} lists {entry.file.path} as {entry.status.name} by snapshot "
                f"{entry.snapshot_id}, and the snapshot before it, which would show if the file is new, has expired; "
                "icefloe reset loads the table again"
            )
    return found


def _only_in(one: Iterable[ManifestFile], other: Iterable[ManifestFile]) -> list[ManifestFile]:
    """Those that one list has more often."""
    # Where a manifest gives its files another sequence number, other delete files reach them.
    left = Counter((each.path, each.sequence_number) for each in other)
    found = []
    for each in one:
        key = each.path, each.sequence_number
        left[key] -= 1
        if left[key] < 0:
            found.append(each)
    return found


class ManifestPruning:
    """Partitions and paths of data files that some delete files can reach."""

    def __init__(
        self, delete_files: Collection[DeleteEntry], types: Mapping[int, Sequence[PrimitiveType | None]]
    ) -> None:
        self._types = types
        # Equality deletes of an unpartitioned spec reach every file, others the files of their partition.
        self._is_global = False
        self._partitions: dict[int, set[tuple[Constant, ...]]] = defaultdict(set)
        self._reaches_partitions: set[int] = set()
        self._included: dict[str, bool] = {}
        names = (entry.only_data_file for entry in delete_files)
        # Data files that delete files name count whatever their partition is.
        self.named = frozenset(name for name in names if name is not None)
        for entry in delete_files:
            spec_id, values = entry.partition
            self._partitions[spec_id].add(values)
            if entry.file.content is FileContent.EQUALITY_DELETES and entry.is_unpartitioned:
                self._is_global = True
            elif entry.may_name_others:
                self._reaches_partitions.add(spec_id)

    def includes(self, manifest: ManifestFile) -> bool:
        """False only if a manifest lists no file that is reached."""
        if self._is_global:
            return True
        # A file that a delete file of another partition names is left aside.
        if manifest.path not in self._included:
            self._included[manifest.path] = self._may_list(manifest)
        return self._included[manifest.path]

    def is_in_place(self, entry: DataEntry) -> bool:
        """True if a file is named, and every manifest that lists it in its partition is included."""
        spec_id, values = entry.partition
        return entry.file.path in self.named and values in self._partitions.get(spec_id, ())

    def paths(self, manifest: ManifestFile) -> Container[str] | None:
        """The only files of a manifest that can be reached; None: any file."""
        is_any = self._is_global or manifest.spec_id in self._reaches_partitions
        return None if is_any and self.includes(manifest) else self.named

    def _may_list(self, manifest: ManifestFile) -> bool:
        types, summaries = self._types.get(manifest.spec_id, ()), manifest.partitions
        wanted = self._partitions.get(manifest.spec_id, ())
        # Deletes in the partitions day=3 and day=9: a manifest that lists the days 1 to 5 is read, one with 6 to 8 is
        # not.
        if summaries is None or len(summaries) != len(types):
            return bool(wanted)
        listed = [_listed(kind, summary) for kind, summary in zip(types, summaries, strict=True)]
        return any(all(map(may_meet, map(_only, types, values), listed)) for values in wanted)


@lru_cache(maxsize=1 << 16)  # asked for each pair of a partition and a manifest
def _only(kind: PrimitiveType | None, value: Constant) -> ColumnRange:
    return ColumnRange() if kind is None else partition_range(kind, value)


def _listed(kind: PrimitiveType | None, summary: FieldSummary) -> ColumnRange:
    """NaN is outside the bounds."""
    if kind is None:
        return ColumnRange()
    return ColumnRange(
        lower=decoded_bound(kind, summary.lower_bound),
        upper=decoded_bound(kind, summary.upper_bound),
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

    def terms(self, step: Step) -> StepTerms:
        """The terms whose sum is a step's change, without those that cancel."""
        compared, index = self._deletes.compared[step], self._deletes.index
        if step.kind is not StepKind.INITIAL:
            return summed([self._difference(each) for each in compared])
        live = [entry for each in compared for entry in live_entries(self._read([], each.new)[1])]
        return loaded_terms(live, compared[0].deletes[1] if compared else NO_DELETES, index, step)

    def _difference(self, of: Comparison) -> StepTerms:
        gone, new = self._read(of.gone, of.new)
        before = entries_before(new, of.after_id) if of.before_id is None else live_entries(gone)
        self._meet(chain(before, new))
        # The same manifest lists the same files, which cancel. Only if delete files changed, some of them count.
        kept = self._reached_in(of.kept) if of.deletes[0] != of.deletes[1] else ()
        return compared_terms(before, new, kept, of.deletes, self._deletes.index)

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
        if not self._met.issuperset(self._pruning.named):
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
        if self._pruning.named:
            self._met.update(entry.file.path for entry in entries if self._pruning.is_in_place(entry))

    def _read_reached(self, manifest: ManifestFile) -> DeleteTargets:
        index, in_force = self._deletes.index, self._deletes.index.in_force_at(self._deletes.changed)
        entries = live_entries(self._reader.data_entries(manifest, self._pruning.paths(manifest)))
        # Here, not after the last manifest: a table of 100,000 files has as many entries, and a delete reaches few.
        reached = [(entry, reach) for entry in entries if any(in_force(reach := index.reach(entry)))]
        return DeleteTargets([entry for entry, _ in reached], [reach for _, reach in reached])


def _content(manifest: ManifestFile) -> _Content:
    """A later snapshot may give row ids to an older manifest's files."""
    return manifest.path, manifest.sequence_number, manifest.first_row_id


def check_replace(commit: Step, states: ListedStates, reader: ManifestReader, *, table: str) -> str | None:
    """Compare the live rows before and after; a warning if they are not known exactly."""
    snapshot_id = commit.end_snapshot_id
    parent_id = states.parents.get(snapshot_id)
    before = None if parent_id is None else _records(states.manifests[parent_id])
    # Nothing more is read if there are no delete files and the manifest lists have equal counts.
    if before is not None and before == _records(states.manifests[snapshot_id]):
        return None
    deletes = LiveDeletes.read([commit], states, reader)
    terms = list(DataManifests(reader, deletes).terms(commit).each())
    # Only deletion vectors allow an exact count.
    rows = [(term, _live_rows(term, deletes.index)) for term in terms]
    is_known = all(count is not None for _, count in rows)
    # A file that left without a DELETED entry was not replaced by any other.
    added_paths = {term.entry.file.path for term in terms if term.weight > 0}
    is_lost = any(
        term.entry.status is not EntryStatus.DELETED and term.entry.file.path not in added_paths for term in terms
    )
    removed, added = (
        sum(
            max(0, sign * term.weight) * (term.entry.file.record_count if count is None else count)
            for term, count in rows
        )
        for sign in (-1, 1)
    )
    if removed != added and (is_known or is_lost):
        raise TerminalError(
            f"replace snapshot {snapshot_id} of table {table} must keep the {removed} rows of the files that it "
            f"replaced, but there are {added} after it: its writer changed rows under the name of a compaction; load "
            "the table again"
        )
    if is_known:
        return None
    return (
        f"replace snapshot {snapshot_id} of table {table} was skipped, and it could not be "
        "checked that it kept every row: position or equality deletes are in force on files that it replaced"
    )


def _records(manifests: Iterable[ManifestFile]) -> int | None:
    """None if it has delete files or no counts."""
    counts = [None if manifest.holds_deletes else manifest.live_rows for manifest in manifests]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _live_rows(term: FileTerm, delete_files: DeleteFileIndex) -> int | None:
    """None if anything other than one deletion vector deletes rows."""
    if not term.delete_files:
        return term.entry.file.record_count
    [first, *others] = (delete_files[number] for number in term.delete_files)
    is_known = first.is_deletion_vector and not others
    return term.entry.file.record_count - first.record_count if is_known else None
