"""Attempts of one range of a random history, with less memory each and rows in another order: the same bytes."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe.api import read_changes
from icefloe.batch import changelog_scan
from icefloe.batch.reduce.coalesce_map_outputs import load_coalesce_plan
from icefloe.batch.reduce.moves import write_moves
from icefloe.batch.reduce.range_rows import RangeRows, RowGroup
from icefloe.batch.reduce.read_range import GroupChanges, read_range
from icefloe.flow import Phase
from support.pipelines.workshop import OpenBatch, Workshop
from support.tables.events import SCHEMA

FORMS: list[dict[str, Any]] = [
    {"identifier_columns": ["id"], "changes": "each"},
    {"identifier_columns": ["id"], "changes": "net"},
    {"identifier_columns": ["id"], "columns": ["value", "word"], "changes": "each"},
    {"identifier_columns": ["id"], "columns": ["value", "word"], "changes": "net"},
    {"identifier_columns": None, "changes": "each"},
]


def some_rows(chance: random.Random, count: int) -> pa.Table:
    """Few values, so that one identity has most rows, and rows are there many times."""
    ids = [chance.choice((1, 1, 1, 1, 2, 3, chance.randrange(30))) for _ in range(count)]
    columns = [ids, [float(chance.randrange(2)) for _ in ids], [f"word {chance.randrange(40)}" for _ in ids]]
    return pa.table(columns, schema=SCHEMA)


def shuffled(folder: Path, **keys: Any) -> tuple[Workshop, OpenBatch]:
    chance = random.Random(0)
    workshop = Workshop.create(folder).set(shuffle={"partitions": 2, "target_size_bytes": "1GiB"}, **keys)
    workshop.table.append(some_rows(chance, 150))
    workshop.deliver()
    for _ in range(3):
        chance.choice((workshop.replace, workshop.table.append))(some_rows(chance, chance.randrange(40, 200)))
    workshop.replace(some_rows(chance, 120))
    # Only some pieces of an identity hold rows of the last step.
    workshop.table.append(some_rows(chance, 3))
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE)
    batch.coalesce()
    return workshop, batch


def delivered(batch: OpenBatch, folder: Path) -> tuple[Any, bytes]:
    batch.store.delete(["results/00000.json"])
    for part in (folder / "changes" / "batch=1").glob("part-*"):
        part.unlink()
    running = batch.running
    # The rows that cancel across identities are found with little memory too.
    batch.store.delete([each.key for each in batch.store.list("moves")])
    for each in load_coalesce_plan(running.folder).hash_ranges:
        write_moves(running.folder, each.range_id, epoch=0)
    message = read_range(running.folder, running.folder_of_changes, 0, requests=running.requests, epoch=0).message
    [part] = (folder / "changes" / "batch=1").glob("part-*")
    return message, part.read_bytes()


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.parametrize("form", FORMS, ids=["identity", "net", "identity carried", "carried, net", "no identity"])
def test_changes_are_the_same_bytes_whatever_the_memory(
    tmp_path: Path, form: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    torn: list[bool] = []
    changes_of, groups_of, chance = GroupChanges.of, RangeRows.groups, random.Random(0)

    def watched(self: GroupChanges, group: Any) -> Any:
        torn.append(group.is_torn)
        return changes_of(self, group)

    def reordered(piece: pa.Table) -> pa.Table:
        return piece.take(pa.array(chance.sample(range(piece.num_rows), piece.num_rows), pa.int64()))

    def in_another_order(self: RangeRows) -> Iterator[RowGroup]:
        return (RowGroup(map(reordered, pieces), is_torn) for pieces, is_torn in groups_of(self))

    monkeypatch.setattr(GroupChanges, "of", watched)
    workshop, batch = shuffled(tmp_path, **form)
    whole = delivered(batch, workshop.folder)
    assert not any(torn)
    monkeypatch.setattr(RangeRows, "groups", in_another_order)
    for memory_bytes in (1 << 30, 1, 30_000):
        assert delivered(batch.edited(memory_bytes=memory_bytes), workshop.folder) == whole
    assert any(torn)
    torn.clear()
    # Many copies of few rows: all fit, but not the changes that they make.
    monkeypatch.setattr("icefloe.batch.reduce.read_range._BYTES_PER_CHANGE", 1 << 26)
    assert delivered(batch, workshop.folder) == whole
    assert not any(torn)


def test_a_piece_whose_rows_all_cancel_may_have_moves_near_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog_scan, "MEMORY_BYTES", 1 << 18)
    table, ids = Workshop.create(tmp_path).table, list(range(20_000))

    def rows(words: list[str]) -> pa.Table:
        return pa.table([ids, [0.0] * len(ids), words], schema=SCHEMA)

    words = [f"word {number}" for number in ids]
    table.append(rows(words))
    table.overwrite(rows([f"other {number}" for number in ids]))
    # Two identities change places, and one row is new.
    table.overwrite(rows([words[1], words[0], "new", *words[3:]]))
    first, last = table.snapshots()[0].snapshot_id, table.metadata.current_snapshot_id
    changes = read_changes(table, first, last, changes="net", columns=["word"], identifier_columns=["id"]).read_all()
    assert changes["word"].to_pylist() == ["word 2", "new"]
