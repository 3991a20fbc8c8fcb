"""A table whose branch goes forth and back at random, and every state that its readers saw."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import pyarrow as pa
from pyiceberg.table import Table

ROWS: Final = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("word", pa.string()), pa.field("number", pa.int32())]
)
KEYS: Final = 6
Rows = dict[int, dict[str, Any]]


@dataclass
class PublishedStates:
    """Random commits, rollbacks, and commits of another branch that became current at once."""

    table: Table
    random: Random
    _branches: int = field(default=0)

    def rows(self, snapshot_id: int | None = None) -> Rows:
        return {row["id"]: row for row in self.table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()}

    def entries(self) -> list[tuple[int, int]]:
        """Snapshot ids and times of the log."""
        self.table.refresh()
        return [(entry.snapshot_id, entry.timestamp_ms) for entry in self.table.metadata.snapshot_log]

    def go_on(self, count: int) -> None:
        for _ in range(count):
            self.random.choice([self.write, self.write, self.write, self.roll_back, self.fast_forward])()

    def write(self, branch: str = "main") -> None:
        """One commit, of several snapshots and entries if rows are replaced."""
        held = self.table.scan(snapshot_id=self.table.refs()[branch].snapshot_id).to_arrow().to_pylist()
        ids = self.random.sample(range(KEYS), self.random.randrange(1, 4))
        there = [row["id"] for row in held if row["id"] in ids]
        with self.table.transaction() as transaction:
            if there:
                transaction.delete(f"id in ({', '.join(map(str, there))})", branch=branch)
            new = [*self._rows(key for key in ids if self.random.random() < 0.7)]
            if new or not there:
                transaction.append(pa.Table.from_pylist(new, ROWS), branch=branch)

    def _rows(self, keys: Iterator[int]) -> Iterator[dict[str, Any]]:
        for key in keys:
            yield {"id": key, "word": self.random.choice([None, "a", "b"]), "number": self.random.choice([None, 0, 1])}

    def roll_back(self) -> None:
        """To a state that was current once."""
        there = {snapshot.snapshot_id for snapshot in self.table.metadata.snapshots}
        found = [snapshot_id for snapshot_id, _ in self.entries() if snapshot_id in there]
        self.table.manage_snapshots().set_current_snapshot(self.random.choice(found)).commit()

    def fast_forward(self) -> None:
        """Commits that nobody saw, until main is moved to the last of them."""
        self._branches += 1
        name, head = f"b{self._branches}", self.table.current_snapshot()
        assert head is not None
        self.table.manage_snapshots().create_branch(head.snapshot_id, name).commit()
        for _ in range(self.random.randrange(1, 3)):
            self.write(name)
        staged = self.table.refs()[name].snapshot_id
        self.table.manage_snapshots().set_current_snapshot(staged).commit()
