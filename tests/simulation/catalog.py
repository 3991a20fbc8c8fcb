"""A catalog in memory: the table as commits, rollbacks and expiries have left it, and commits of branches and tags."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any, Final, TypeVar, cast
from unittest.mock import patch

from pyiceberg.catalog import Catalog
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef
from pyiceberg.table.snapshots import SnapshotLogEntry
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

from icefloe.iceberg.catalog import table_refs
from simulation.store import Process
from simulation.table import Heads, TableStates, table_states, version_of
from simulation.world import World

__all__ = ["metadata_of", "present_table", "with_catalog"]

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
        stack.enter_context(patch.object(table_refs, "Patience", _AtOnce))
        stack.enter_context(patch.object(table_refs, "_PAUSES_SECONDS", (0.0,) * 5))
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
