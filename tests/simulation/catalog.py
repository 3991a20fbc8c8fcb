"""A catalog in memory: the table as commits, rollbacks and expiries have left it, and commits of branches and tags."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any, Final, TypeVar, cast
from unittest.mock import patch

from pyiceberg.catalog import Catalog
from pyiceberg.io import InputFile
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef
from pyiceberg.table.snapshots import SnapshotLogEntry
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

from icefloe.iceberg.catalog.confined_io import ConfinedIO
from icefloe.iceberg.history import pins as table_pins
from simulation.promises import Places
from simulation.store import Process
from simulation.table import Heads, TableStates, table_states, version_of
from simulation.world import World

__all__ = [
    "FILES",
    "delete_files",
    "expire_delivered",
    "expire_looked_at",
    "present_table",
    "with_catalog",
    "with_files_of",
]

Answer = TypeVar("Answer")
Refs = tuple[tuple[str, SnapshotRef], ...]


def present_table(states: TableStates, process: Process) -> Table:
    """The table as the catalog has it now, for one process."""
    world = process.world
    empty, location = states.empty, version_of(tuple(world.heads)).location
    catalog = cast("Catalog", _Catalog(process))
    return Table(empty.name(), metadata_of(world), location, empty.io, catalog)


@contextmanager
def with_catalog() -> Iterator[None]:
    """Commits of branches and tags wait for nothing as long as the context lasts."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(table_pins, "Patience", _AtOnce))
        stack.enter_context(patch.object(table_pins, "_PAUSES_SECONDS", (0.0,) * 5))
        yield


class _AtOnce:
    """In place of a `Patience`: the answer is there, or a fault says so."""

    @classmethod
    def of(cls, environ: Mapping[str, str], *, place: str) -> "_AtOnce":  # noqa: ARG003 - as its original
        return cls()

    def wait_for(self, answer: Callable[[], Answer], what: str) -> Answer:  # noqa: ARG002 - as its original
        return answer()


class _Catalog:
    """The catalog as one process sees it: what icefloe calls of PyIceberg's `Catalog`."""

    name: Final = "lab"

    def __init__(self, process: Process) -> None:
        self._process = process
        self.properties: dict[str, str] = {}

    def load_table(self, _: object) -> Table:
        return self._process.do("load", "table", lambda: present_table(table_states(), self._process))

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        world = self._process.world

        def commit() -> CommitTableResponse:
            metadata = metadata_of(world)
            for requirement in requirements:
                requirement.validate(metadata)
            changed = update_table_metadata(metadata, updates)
            world.refs = {name: ref for name, ref in changed.refs.items() if name != MAIN_BRANCH}
            return CommitTableResponse(metadata=changed, metadata_location=table.metadata_location)

        return self._process.do("commit refs", "table", commit)

    def _delete_old_metadata(self, *_: object) -> None:
        """Called by PyIceberg after a commit; this catalog has no old metadata."""


def metadata_of(world: World) -> TableMetadata:
    """The table's metadata as they are now."""
    return _metadata_of(tuple(world.heads), tuple(sorted(world.refs.items())), frozenset(world.expired))


@lru_cache(maxsize=5_000)
def _metadata_of(heads: Heads, refs: Refs, expired: frozenset[int]) -> TableMetadata:
    metadata = version_of(heads).metadata
    if not refs and not expired:
        return metadata
    moves: list[SnapshotLogEntry] = []
    for move in metadata.snapshot_log:
        # As Iceberg does: what was before a snapshot that expired is forgotten with it.
        moves = [] if move.snapshot_id in expired else [*moves, move]
    changes: dict[str, Any] = {
        "refs": {**metadata.refs, **dict(refs)},
        "snapshot_log": moves,
        "snapshots": [each for each in metadata.snapshots if each.snapshot_id not in expired],
    }
    return metadata.model_copy(update=changes)


class TableFiles:
    """The table's files as readers find them.

    Attributes:
        gone: locations of the files that were deleted.
        read: locations of the files that were opened, one set for each reader that wants to know.
    """

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.read: list[set[str]] = [set()]

    def open(self, io: ConfinedIO, location: str) -> InputFile:
        """In place of `ConfinedIO.new_input`."""
        self.read[-1].add(location)
        return _NEW_INPUT(io, f"{location}.gone" if location in self.gone else location)


FILES = TableFiles()
"""One schedule is simulated at a time, and readers open files by their locations alone."""
_NEW_INPUT = ConfinedIO.new_input


@contextmanager
def with_files_of(world: World) -> Iterator[None]:
    """Lets readers miss the files that are gone in a world, as long as the context lasts."""
    FILES.gone = world.gone
    with patch.object(ConfinedIO, "new_input", lambda io, location: FILES.open(io, location)):
        yield


def expire_looked_at(process: Process) -> None:
    """Removes what no branch or tag points to, as PyIceberg does.

    What the table has gained since the last look of the pipeline stays: nobody has promised to keep that. After a
    rollback this is each snapshot on which it landed, with those after it.
    """
    world = process.world

    def expire() -> None:
        metadata = metadata_of(world)
        held = {ref.snapshot_id for ref in metadata.refs.values()}
        for ref in [ref for ref in world.refs.values() if ref.snapshot_ref_type == "branch"]:
            looked_at, present = _ancestors(world, ref.snapshot_id), _ancestors(world, world.heads[-1])
            fork = next((number for number, each in enumerate(present) if each in looked_at), 0)
            moves = _moves_since(world, ref.snapshot_id)
            landings = [number for number, each in enumerate(present) if each in moves]
            kept = held.union(present[: max(fork, *landings, 0) + 1], moves)
            _expire(world, [each for each in looked_at if each not in kept])

    process.do("expire", "table", expire)


def expire_delivered(places: Places, process: Process) -> None:
    """Removes the snapshots before the cursor, as maintenance does that keeps snapshots for long enough.

    After a rollback an open batch leads back to one of them: that one stays, with those after it.
    """
    world = process.world

    def expire() -> None:
        commits = places.commits("")
        cursor = int(commits[-1]["up_to_snapshot_id"] or 0) if commits else 0
        if cursor in table_states().lineage(world.heads[-1]):
            ancestors = _ancestors(world, cursor)
            needed = {cursor, *places.open_range(len(commits))}
            kept = max(place for place, each in enumerate(ancestors) if each in needed) if ancestors else 0
            _expire(world, ancestors[kept + 1 :])

    process.do("expire", "table", expire)


def delete_files(process: Process) -> None:
    """Deletes the files of snapshots that expired, some time after the commit that removed those."""
    world = process.world

    def delete() -> None:
        kept = {file for each in metadata_of(world).snapshots for file in _files_of(each.snapshot_id)}
        world.gone.update(file for each in world.expired for file in _files_of(each) if file not in kept)

    process.do("delete files", "table", delete)


def _moves_since(world: World, snapshot_id: int) -> list[int]:
    """The snapshots to which the table has moved since it was last at one."""
    position = len(world.heads) - 1 - world.heads[::-1].index(snapshot_id)
    return world.heads[position:]


def _ancestors(world: World, snapshot_id: int) -> list[int]:
    """A snapshot and those before it, as far as the table has them."""
    snapshots = {each.snapshot_id: each for each in metadata_of(world).snapshots}
    found = []
    while (snapshot := snapshots.get(snapshot_id)) is not None:
        found.append(snapshot_id)
        snapshot_id = snapshot.parent_snapshot_id or 0
    return found


def _expire(world: World, snapshot_ids: list[int]) -> None:
    for snapshot_id in snapshot_ids:
        world.expire(snapshot_id)


@lru_cache(maxsize=1_000)
def _files_of(snapshot_id: int) -> frozenset[str]:
    """The manifest list, the manifests and the data files of a snapshot."""
    states = table_states()
    made = (each for snapshots in states.made.values() for each in snapshots)
    snapshot = next(each for each in made if each.snapshot_id == snapshot_id)
    found = {snapshot.manifest_list}
    with patch.object(ConfinedIO, "new_input", _NEW_INPUT):
        for manifest in snapshot.manifests(states.empty.io):
            entries = manifest.fetch_manifest_entry(states.empty.io, discard_deleted=False)
            live = [each for each in entries if each.status is not ManifestEntryStatus.DELETED]
            found.update([manifest.manifest_path, *(each.data_file.file_path for each in live)])
    return frozenset(found)
