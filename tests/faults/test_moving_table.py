"""A table that somebody commits to, rolls back and expires while batches are planned and delivered."""

import random
from pathlib import Path
from threading import Event, Thread

import pytest
from pyiceberg.types import IntegerType

from support.pipelines.replay import replayed, table_rows
from support.pipelines.workspace import Workspace, icefloe
from support.tiers import extended, soak

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

COLUMNS = ("id", "value", "word")
SHUFFLE = {"partitions": 4, "target_size_bytes": 1, "map_task_bytes": 1}


class Committer:
    """Commits what a seed says, one commit after another, until it has made so many."""

    def __init__(self, workspace: Workspace, seed: int, commits: int) -> None:
        self._workspace, self._random, self._commits = workspace, random.Random(seed), commits
        self._ids = set(range(20))
        self._next = 100
        self.is_done = Event()
        self.error: BaseException | None = None
        self._thread = Thread(target=self._run)

    def __enter__(self) -> "Committer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _run(self) -> None:
        try:
            for _ in range(self._commits):
                self._commit()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            self.error = error
        finally:
            self.is_done.set()

    def _commit(self) -> None:
        table = self._workspace
        match self._random.choice(["append", "append", "update", "delete", "rollback", "column"]):
            case "append":
                ids = range(self._next, self._next + 3)
                self._next += 3
                table.append(*ids)
                self._ids |= set(ids)
            case "update" if self._ids:
                some = self._random.sample(sorted(self._ids), min(4, len(self._ids)))
                table.update(*some, value=float(self._next))
            case "delete" if self._ids:
                gone = self._random.choice(sorted(self._ids))
                table.delete(gone)
                self._ids.discard(gone)
            case "rollback":
                self._roll_back()
            case _:
                with table.table.refresh().update_schema() as change:
                    change.add_column(f"column{self._next}", IntegerType())
                    self._next += 1

    def _roll_back(self) -> None:
        """One commit back, as an operator does after a mistake."""
        table = self._workspace.table.refresh()
        head = table.current_snapshot()
        if head is None or head.parent_snapshot_id is None:
            return
        table.manage_snapshots().rollback_to_snapshot(head.parent_snapshot_id).commit()
        self._ids = set(self._workspace.table.refresh().scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("seed", [1, *map(extended, range(2, 7)), *map(soak, range(7, 20))])
def test_batches_of_a_table_that_moves_meanwhile_lead_to_its_rows(seed: int, tmp_path: Path) -> None:
    workspace = Workspace.create(tmp_path)
    workspace.append(*range(20))
    pipeline = workspace.pipeline(shuffle=SHUFFLE, max_steps_per_batch=3)
    codes = set()
    with Committer(Workspace(folder=tmp_path, table=workspace.table), seed, 12) as committer:
        while not committer.is_done.is_set():
            codes.add(icefloe("run", pipeline).code)
    assert committer.error is None
    assert codes <= {0, 75}
    while (done := icefloe("run", pipeline)).document["batch"] is not None:
        assert done.code == 0
    assert icefloe("verify", pipeline).code == 0
    place = workspace.folder / "events"
    held = replayed(place / "changes", place / "storage/checkpoints/events", COLUMNS)
    assert held == table_rows(workspace.table, COLUMNS)
