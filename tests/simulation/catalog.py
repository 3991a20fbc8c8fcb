"""A catalog in memory: commits of branches and tags, and an expiry that removes all snapshots that none of them holds.

Used by pipelines with ``pin: true`` only. Manifests and data files stay: a snapshot that expired is gone from the
metadata, and whoever needs it finds a gap.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import Any, Final, TypeVar, cast
from unittest.mock import patch

from pyiceberg.catalog import Catalog
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

from icefloe.iceberg.catalog import table_refs
from simulation.store import Process
from simulation.table import TableStates, table_states
from simulation.world import World

__all__ = ["expire_snapshots", "present_table", "with_catalog"]

Answer = TypeVar("Answer")
Refs = tuple[tuple[str, SnapshotRef], ...]


def present_table(states: TableStates, process: Process) -> Table:
    """The table as the catalog has it now, for one process."""
    world = process.world
    table = states.tables[world.commits]
    catalog = cast("Catalog", _Catalog(process))
    return Table(table.name(), _metadata(world), table.metadata_location, table.io, catalog)


def expire_snapshots(process: Process) -> None:
    """Removes what no branch or tag points to, as PyIceberg does.

    Snapshots after the last look of the pipeline stay: nobody has promised to keep those.
    """
    world = process.world

    def expire() -> None:
        snapshots = {each.snapshot_id: each for each in _metadata(world).snapshots}
        held = {ref.snapshot_id for ref in _metadata(world).refs.values()}
        for ref in [ref for ref in world.refs.values() if ref.snapshot_ref_type == "branch"]:
            seen = snapshots.get(ref.snapshot_id)
            while seen is not None:
                if seen.snapshot_id not in held:
                    world.expire(seen.snapshot_id)
                seen = snapshots.get(seen.parent_snapshot_id or 0)

    process.do("expire", "table", expire)


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
            metadata = _metadata(world)
            for requirement in requirements:
                requirement.validate(metadata)
            changed = update_table_metadata(metadata, updates)
            world.refs = {name: ref for name, ref in changed.refs.items() if name != MAIN_BRANCH}
            return CommitTableResponse(metadata=changed, metadata_location=table.metadata_location)

        return self._process.do("commit refs", "table", commit)

    def _delete_old_metadata(self, *_: object) -> None:
        """Called by PyIceberg after a commit; this catalog has no old metadata."""


def _metadata(world: World) -> TableMetadata:
    return _metadata_of(world.commits, tuple(sorted(world.refs.items())), frozenset(world.expired))


@lru_cache(maxsize=5_000)
def _metadata_of(commits: int, refs: Refs, expired: frozenset[int]) -> TableMetadata:
    metadata = table_states().tables[commits].metadata
    if not refs:
        return metadata
    changes: dict[str, Any] = {
        "refs": {**metadata.refs, **dict(refs)},
        "snapshots": [each for each in metadata.snapshots if each.snapshot_id not in expired],
    }
    return metadata.model_copy(update=changes)
