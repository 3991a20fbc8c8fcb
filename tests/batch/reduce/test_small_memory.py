"""Attempts of one range of a random history, with less memory each and rows in another order: the same bytes."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pyarrow as pa
import pytest

from icefloe.batch.reduce import range_rows, read_range
from icefloe.batch.reduce.coalesce_map_outputs import load_coalesce_plan
from icefloe.batch.reduce.moves import write_moves
from icefloe.batch.reduce.range_rows import RangeRows
from icefloe.errors import TerminalError
from icefloe.flow import Phase
from support.pipelines.workshop import OpenBatch, Workshop
from support.tables.events import SCHEMA, rows

ENOUGH_BYTES: Final = 240_000
"""For the rows of one identity, not for all."""
FORMS: Final[list[tuple[dict[str, Any], int]]] = [
    ({"identifier_columns": ["id"], "changes": "each"}, 600),
    ({"identifier_columns": ["id"], "changes": "net"}, 120),
    ({"identifier_columns": ["id"], "columns": ["value", "word"], "changes": "each"}, 600),
    ({"identifier_columns": ["id"], "columns": ["value", "word"], "changes": "net"}, 95),
    ({"identifier_columns": None, "changes": "each"}, 400),
]
"""Keys of pipelines, and a number of changes between those of one identity and those of all."""


def some_rows(chance: random.Random, count: int) -> pa.Table:
    """Few values, so that one identity has most rows, and rows are there many times."""
    ids = [chance.choice((1, 1, 1, 1, 2, 3, chance.randrange(30))) for _ in range(count)]
    columns = [ids, [float(chance.randrange(2)) for _ in ids], [f"word {chance.randrange(40)}" for _ in ids]]
    return pa.table(columns, schema=SCHEMA)


def shuffled(folder: Path, **keys: Any) -> tuple[Workshop, OpenBatch]:
    chance = random.Random(0)
    workshop = Workshop.create(folder).set(shuffle={"partitions": 1, "target_size_bytes": "1GiB"}, **keys)
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
    found = read_range.read_range(running.folder, running.folder_of_changes, 0, requests=running.requests, epoch=0)
    [part] = (folder / "changes" / "batch=1").glob("part-*")
    return found.message, part.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(("form", "changes"), FORMS, ids=["identity", "net", "carried", "carried, net", "none"])
def test_changes_are_the_same_bytes_whatever_the_memory(
    tmp_path: Path,
    form: dict[str, Any],
    changes: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pieces_of, chance = RangeRows.pieces, random.Random(0)

    def in_another_order(self: RangeRows) -> Iterator[pa.Table]:
        for piece in pieces_of(self):
            yield piece.take(pa.array(chance.sample(range(piece.num_rows), piece.num_rows), pa.int64()))

    workshop, batch = shuffled(tmp_path, **form)
    whole = delivered(batch, workshop.folder)
    monkeypatch.setattr(RangeRows, "pieces", in_another_order)
    with caplog.at_level("INFO", logger=range_rows.__name__):
        assert delivered(batch, workshop.folder) == whole
        assert not caplog.messages
        monkeypatch.setattr(read_range, "_BYTES_PER_CHANGE", 1)
        assert delivered(batch.edited(memory_bytes=ENOUGH_BYTES), workshop.folder) == whole
    assert any("is divided on local disk" in message for message in caplog.messages)
    # All rows fit, but not the changes that they make.
    windows = mock.Mock(side_effect=read_range._windows)
    monkeypatch.setattr(read_range, "_windows", windows)
    monkeypatch.setattr(read_range, "_BYTES_PER_CHANGE", (1 << 28) // changes)
    assert delivered(batch, workshop.folder) == whole
    assert windows.call_count


def test_one_identity_with_more_changes_than_memory_is_refused(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.append([1] * 300 + [2, 3])
    workshop.deliver()
    workshop.replace(pa.table([[1] * 290, [2.0] * 290, [f"word {n}" for n in range(290)]], schema=SCHEMA))
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE)
    batch.coalesce()
    sentence = r"^one identity has more changed rows in this batch than shuffle.memory_bytes \(.*\) holds: raise it"
    with pytest.raises(TerminalError, match=sentence):
        delivered(batch.edited(memory_bytes=20_000), workshop.folder)
    monkeypatch.setattr(read_range, "_BYTES_PER_CHANGE", 1 << 20)
    with pytest.raises(TerminalError, match=sentence):
        delivered(batch, workshop.folder)


def test_copies_of_one_row_are_added_up_before_they_fill_the_memory(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.set(identifier_columns=None).append([1] * 300)
    workshop.deliver()
    workshop.replace(rows([1] * 290, value=2.0))
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE)
    batch.coalesce()
    monkeypatch.setattr(read_range, "_BYTES_PER_CHANGE", 1)
    batch.edited(memory_bytes=20_000).run(Phase.SHUFFLE_READ)
    batch.commit()
    workshop.require_exact(batch.plan, workshop.changes(1))
