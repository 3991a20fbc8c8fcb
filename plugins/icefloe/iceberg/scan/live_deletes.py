"""The states that a batch compares, and their delete files, read before data manifests."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple, Self, TypeVar

from icefloe.errors import TerminalError
from icefloe.iceberg.manifests.manifest_entries import DataEntry, DeleteEntry, DeleteId, EntryStatus, ManifestFile
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.scan.delete_file_index import NO_DELETES, DeleteFileIndex, DeleteNumbers
from icefloe.iceberg.step import Step, StepKind
from icefloe.storage.requests import map_parallel

Entry = TypeVar("Entry", DataEntry, DeleteEntry)


class ListedStates(NamedTuple):
    """Manifests by snapshot id, and the state before each commit, unless it has expired."""

    manifests: Mapping[int, Sequence[ManifestFile]]
    parents: Mapping[int, int]

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
    """Two states whose difference is a change, and the manifests in which they can differ.

    The states' live files count, as for every reader. The manifests of a commit may say otherwise.

    Attributes:
        before_id: the earlier state; None if it has expired, or the table was empty.
        new: without an earlier state, those that its snapshot wrote.
    """

    before_id: int | None
    after_id: int
    gone: Sequence[ManifestFile]
    new: Sequence[ManifestFile]
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
        key = entry.identity, entry.delete_file.sequence_number
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
            file = entry.data_file if isinstance(entry, DataEntry) else entry.delete_file
            raise TerminalError(
                f"snapshot {snapshot_id} lists {file.path} as {entry.status.name} by snapshot {entry.snapshot_id}, and "
                "the snapshot before it, which would show if the file is new, has expired; icefloe reset loads the "
                "table again"
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
