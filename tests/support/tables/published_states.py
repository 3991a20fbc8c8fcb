"""A table whose branch goes forth and back at random, and every state that its readers saw."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, Final

import pyarrow as pa
import pytest
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
    _staged: list[int] = field(default_factory=list)

    def unsettle_clocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each commit has a clock that is up to three seconds late."""

        def late_ms() -> int:
            return int(time.time() * 1000) - self.random.randrange(3000)

        clock = SimpleNamespace(time=lambda: late_ms() / 1000)
        monkeypatch.setattr("pyiceberg.table.snapshots.time", clock)
        monkeypatch.setattr("pyiceberg.table.update.datetime_to_millis", lambda _: late_ms())

    def rows(self, snapshot_id: int | None = None) -> Rows:
        return {row["id"]: row for row in self.table.scan(snapshot_id=snapshot_id).to_arrow().to_pylist()}

    def entries(self) -> list[tuple[int, int]]:
        """Snapshot ids and times of the log."""
        self.table.refresh()
        return [(entry.snapshot_id, entry.timestamp_ms) for entry in self.table.metadata.snapshot_log]

    def go_on(self, count: int) -> None:
        for _ in range(count):
            self.random.choice([self.write, self.write, self.write, self.roll_back, self.stage, self.publish])()

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

    def stage(self) -> None:
        """Commits on another branch, which nobody sees before main is moved there."""
        name = self._branch()
        for _ in range(self.random.randrange(1, 3)):
            self.write(name)
        self._staged.append(self.table.refs()[name].snapshot_id)

    def _branch(self) -> str:
        name, head = f"b{self.table.last_sequence_number}", self.table.current_snapshot()
        assert head is not None
        self.table.manage_snapshots().create_branch(head.snapshot_id, name).commit()
        return name

    def replace(self, row: dict[str, Any]) -> None:
        """One row in place of another, at once: readers see nothing between."""
        name = self._branch()
        self.table.delete(f"id = {row['id']}", branch=name)
        self.table.append(pa.Table.from_pylist([row], ROWS), branch=name)
        self.table.manage_snapshots().set_current_snapshot(self.table.refs()[name].snapshot_id).commit()

    def publish(self) -> None:
        """Staged commits become current, though main may have gone on."""
        if not self._staged:
            self.stage()
        self.table.manage_snapshots().set_current_snapshot(self._staged.pop()).commit()

    def expire(self, count: int) -> None:
        """Snapshots at random, with their entries: PyIceberg cuts no log in front of them."""
        heads = {ref.snapshot_id for ref in self.table.refresh().refs().values()}
        others = [each.snapshot_id for each in self.table.snapshots() if each.snapshot_id not in heads]
        gone = self.random.sample(others, min(count, len(others)))
        if gone:
            self.table.maintenance.expire_snapshots().by_ids(gone).commit()
        self._staged = [each for each in self._staged if each not in gone]
