"""The delete files of each state that a batch compares, read from delete manifests before any data manifest."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, Self

from icefloe.iceberg.manifests.manifest_entries import DeleteEntry, DeleteId, EntryStatus, ManifestFile
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.scan.delete_file_index import NO_DELETES, DeleteFileIndex, DeleteNumbers
from icefloe.iceberg.step import Step, StepKind
from icefloe.storage.parallel import map_parallel

Manifests = Mapping[int, Sequence[ManifestFile]]
"""The manifests of states, by snapshot id."""

__all__ = ["LiveDeletes"]


class OwnDeletes(NamedTuple):
    """The delete files that a snapshot added and removed."""

    added: DeleteNumbers
    removed: DeleteNumbers


class Around(NamedTuple):
    """The delete files that are live before and after a step."""

    before: DeleteNumbers
    after: DeleteNumbers


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDeletes:
    """The delete files of a batch, and which of them are live when.

    Attributes:
        index: all of them.
        own: of each commit.
        live: of each state that is compared, by snapshot id; not of commits that changed no file.
        changed: those that a step adds or removes.
    """

    index: DeleteFileIndex
    own: Mapping[int, OwnDeletes]
    live: Mapping[int, DeleteNumbers]
    changed: DeleteNumbers

    @classmethod
    def read(cls, steps: Sequence[Step], manifests: Manifests, reader: ManifestReader) -> Self:
        """Reads the delete manifests of the states that steps compare, each of them once.

        Raises:
            TerminalError, TransientError: as ``ManifestReader``.
        """
        commits = [each for step in steps if step.kind is StepKind.COMMIT for each in step.snapshot_ids]
        own = {each: [m for m in own_manifests(manifests, each) if m.holds_deletes] for each in commits}
        live = {
            each: [m for m in manifests[each] if m.holds_deletes and m.may_list_live_files]
            for each in _states(steps, manifests)
        }
        wanted = {manifest.path: manifest for manifest in chain(*own.values(), *live.values())}
        entries = dict(zip(wanted, map_parallel(reader.delete_entries, wanted.values()), strict=True))
        numbers = _Numbers()
        own_deletes = {
            each: numbers.changed_by(each, chain.from_iterable(entries[m.path] for m in own[each])) for each in own
        }
        # Hundreds of states may share a manifest.
        live_in = {m.path: numbers.live(entries[m.path]) for m in chain(*live.values())}
        live_deletes = {each: NO_DELETES.union(*(live_in[m.path] for m in live[each])) for each in live}
        compared = [_ends(step) for step in steps if step.kind is StepKind.STATES]
        return cls(
            index=DeleteFileIndex(numbers.entries, reader.key_types),
            own=own_deletes,
            live=live_deletes,
            changed=NO_DELETES.union(
                *chain.from_iterable(own_deletes.values()),
                *(live_deletes[start] ^ live_deletes[end] for start, end in compared),
            ),
        )

    def around(self, snapshot_id: int) -> Around:
        """The delete files before and after a commit."""
        # The state before is the state after, taken back by what the snapshot says of itself: its parent may have
        # expired.
        added, removed = self.own[snapshot_id]
        after = self.live[snapshot_id]
        return Around(removed | (after - added), after)


class _Numbers:
    """Gives numbers to delete files, in the order in which it meets them."""

    def __init__(self) -> None:
        self.entries: list[DeleteEntry] = []
        self._known: dict[tuple[DeleteId, int], int] = {}

    def changed_by(self, snapshot_id: int, entries: Iterable[DeleteEntry]) -> OwnDeletes:
        """Of entries of a snapshot's own manifests, those that it added and removed."""
        of_status = {EntryStatus.ADDED: list[DeleteEntry](), EntryStatus.DELETED: list[DeleteEntry]()}
        for entry in entries:
            # A DELETED entry is the manifest's own whatever its id.
            if entry.status is EntryStatus.DELETED or (
                entry.status is EntryStatus.ADDED and entry.snapshot_id == snapshot_id
            ):
                of_status[entry.status].append(entry)
        return OwnDeletes(*map(self._of, of_status.values()))

    def live(self, entries: Iterable[DeleteEntry]) -> DeleteNumbers:
        """Those that are live."""
        return self._of(entry for entry in entries if entry.status is not EntryStatus.DELETED)

    def _of(self, entries: Iterable[DeleteEntry]) -> DeleteNumbers:
        return DeleteNumbers([self._number(entry) for entry in entries])

    def _number(self, entry: DeleteEntry) -> int:
        # A snapshot that was cherry-picked lists the delete files of another one under new sequence numbers.
        key = entry.identity, entry.delete_file.sequence_number
        number = self._known.setdefault(key, len(self.entries))
        if number == len(self.entries):
            self.entries.append(entry)
        return number


def own_manifests(manifests: Manifests, snapshot_id: int) -> list[ManifestFile]:
    """The manifests that a snapshot wrote; they hold all its ADDED and DELETED entries."""
    return [manifest for manifest in manifests[snapshot_id] if manifest.added_snapshot_id == snapshot_id]


def _states(steps: Iterable[Step], manifests: Manifests) -> list[int]:
    """Snapshot ids of the states of which the live delete files count, each once."""
    found: dict[int, None] = {}
    for step in steps:
        if step.kind is StepKind.COMMIT:
            # A commit without files of its own changes nothing. Its delete manifests are read whatever they count.
            for each in step.snapshot_ids:
                if any(m.holds_deletes or m.may_change_files for m in own_manifests(manifests, each)):
                    found[each] = None
        else:
            found |= dict.fromkeys(_ends(step) if step.kind is StepKind.STATES else [step.end_snapshot_id])
    return list(found)


def _ends(step: Step) -> tuple[int, int]:
    if step.start_snapshot_id is None:
        raise ValueError(f"step {step.change_ordinal} compares states and has no start")
    return step.start_snapshot_id, step.end_snapshot_id
