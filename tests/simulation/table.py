"""A table of a few rows, in every state that commits and rollbacks give it."""

import atexit
import hashlib
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from random import Random
from typing import Final, Self
from unittest.mock import patch

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import MetadataLogEntry, Snapshot, SnapshotLogEntry

from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.iceberg.table import Table
from support.catalogs import sql_properties
from support.pipelines.workshop import Workshop
from support.spark.row_counts import Row
from support.tables.events import NAME

__all__ = ["Heads", "TableStates", "table_states", "version_of"]

_COMMITS: Final[tuple[Callable[[Workshop], object], ...]] = (
    lambda workshop: workshop.append([1, 2]),
    lambda workshop: workshop.append([3, 4]),
    lambda workshop: workshop.update([1, 3], value=2.0),
    lambda workshop: workshop.append([5]),
    lambda workshop: workshop.delete([2]),
    # In the place of a whole file, with as many row groups.
    lambda workshop: workshop.update([1, 3], value=3.0),
    lambda workshop: workshop.append([6, 7]),
)
_SECOND_MS: Final = 1_000
Heads = tuple[int, ...]
"""Ids of the snapshots that the main branch has pointed to, in order. A rollback repeats one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of the table's metadata, and the file that holds it."""

    metadata: TableMetadata
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStates:
    """The table in all states. A commit is known by the last of its snapshots.

    Attributes:
        empty: the table before its first commit.
        main: the commits, if the table is never rolled back.
        made: the snapshots of a commit, oldest first, by commit.
        before: the commit on which another one builds, by commit; None: none.
        rows: by commit; None: before the first.
    """

    empty: Table
    main: Heads
    made: dict[int, tuple[Snapshot, ...]]
    before: dict[int, int | None]
    rows: dict[int | None, Counter[Row]]

    def lineage(self, commit: int | None) -> Sequence[int]:
        """A commit and those on which it builds, newest first."""
        found = []
        while commit is not None:
            found.append(commit)
            commit = self.before[commit]
        return found

    def without_key(self) -> Self:
        """The same with rows that have lost their first column."""
        rows = {commit: Counter(row[1:] for row in rows.elements()) for commit, rows in self.rows.items()}
        return replace(self, rows=rows)

    def next_commit(self, heads: Heads) -> int | None:
        """The commit that is made now; None if the table has no more. After a rollback it is another one than before.

        Args:
            heads: of the table.
        """
        head = heads[-1] if heads else None
        last = max((self.made[each][-1].sequence_number or 0 for each in heads), default=0)
        # Their sequence numbers rise in the order in which commits are made, as readers of delete files rely on.
        later = (id_ for id_, before in self.before.items() if before == head)
        return next((id_ for id_ in later if (self.made[id_][0].sequence_number or 0) > last), None)


@lru_cache(maxsize=1)
def table_states() -> TableStates:
    """The states, written once per process to a folder that goes with the process.

    Names of files and ids of snapshots are the same in every process, so that a seed is too.
    """
    folder = Path(tempfile.mkdtemp(prefix="icefloe-simulation-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    names = Random("names")
    with patch("uuid.uuid4", lambda: uuid.UUID(int=names.getrandbits(128), version=4)):
        return _states(Workshop.create(folder, properties={"write.parquet.row-group-limit": "1"}))


def _states(workshop: Workshop) -> TableStates:
    empty = load_table({"name": "lab", **sql_properties(workshop.folder)}, f"db.{NAME}")
    states = TableStates(empty=empty, main=(), made={}, before={}, rows={None: Counter()})
    main = [_commit(workshop, states, commit) for commit in _COMMITS]
    # The other ones after a rollback, from the last commit back, so that several can follow one another.
    for number, head in reversed(list(enumerate(main[:-1]))):
        workshop.table.manage_snapshots().rollback_to_snapshot(head).commit()
        _commit(workshop, states, partial(_add_or_change, number))
    return TableStates(empty=empty, main=tuple(main), made=states.made, before=states.before, rows=states.rows)


def _add_or_change(number: int, workshop: Workshop) -> object:
    return workshop.append([20 + number]) if number % 2 else workshop.update([1], value=9.0 + number)


def _commit(workshop: Workshop, states: TableStates, commit: Callable[[Workshop], object]) -> int:
    """Makes a commit, and adds it to the states; returns the last of its snapshots."""
    known = set(workshop.snapshot_ids())
    before = workshop.head() if known else None
    commit(workshop)
    head = workshop.head()
    new = [each for each in workshop.table.metadata.snapshots if each.snapshot_id not in known]
    states.made[head] = tuple(new)
    states.before[head] = before
    states.rows[head] = workshop.state(head)
    return head


@lru_cache(maxsize=5_000)
def version_of(heads: Heads) -> Version:
    """The metadata after some moves of the main branch, with all earlier versions in its log."""
    states = table_states()
    if not heads:
        return Version(metadata=states.empty.metadata, location=states.empty.metadata_location)
    before, head = version_of(heads[:-1]), heads[-1]
    metadata, known = before.metadata, {each.snapshot_id for each in before.metadata.snapshots}
    now_ms = metadata.last_updated_ms + _SECOND_MS
    new = [
        each.model_copy(update={"timestamp_ms": now_ms}) for each in states.made[head] if each.snapshot_id not in known
    ]
    moves = [each.snapshot_id for each in new] or [head]
    changed = metadata.model_copy(
        update={
            "current_snapshot_id": head,
            "last_sequence_number": max([metadata.last_sequence_number, *(each.sequence_number or 0 for each in new)]),
            "last_updated_ms": now_ms,
            "metadata_log": [
                *metadata.metadata_log,
                MetadataLogEntry(metadata_file=before.location, timestamp_ms=metadata.last_updated_ms),
            ],
            "refs": {MAIN_BRANCH: SnapshotRef.model_validate({"snapshot-id": head, "type": SnapshotRefType.BRANCH})},
            "snapshot_log": [
                *metadata.snapshot_log,
                *(SnapshotLogEntry(snapshot_id=each, timestamp_ms=now_ms) for each in moves),
            ],
            "snapshots": [*metadata.snapshots, *new],
        }
    )
    digest = hashlib.sha256(repr(heads).encode()).hexdigest()[:16]
    location = f"{metadata.location}/metadata/{len(heads):05d}-{digest}.metadata.json"
    Path(location.removeprefix("file://")).write_text(changed.model_dump_json())
    return Version(metadata=changed, location=location)
