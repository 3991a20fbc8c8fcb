"""Attempts of one range that meet its rows in another order each, as after a retry on another machine."""

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from icefloe.batch.reduce.range_rows import RangeRows, RowGroup
from icefloe.batch.reduce.read_range import read_range
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.flow import Phase
from support.pipelines.workshop import OpenBatch, Workshop
from support.tables.events import rows

ATTEMPTS = 3


def shuffled(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Gives the rows of each piece to the range in an order of the seed's."""
    real, chance = RangeRows.groups, random.Random(seed)

    def groups(self: RangeRows) -> Iterator[RowGroup]:
        for pieces, is_torn in real(self):
            yield RowGroup(map(reordered, pieces), is_torn)

    def reordered(piece: pa.Table) -> pa.Table:
        return piece.take(pa.array(chance.sample(range(piece.num_rows), piece.num_rows), pa.int64()))

    monkeypatch.setattr(RangeRows, "groups", groups)


def open_batch(workshop: Workshop, identifier_columns: list[str] | None, changes: str) -> OpenBatch:
    """Updates and deletes in three commits, of rows that are there once, twice and three times."""
    workshop.set(identifier_columns=identifier_columns, changes=changes, shuffle={"partitions": 2})
    workshop.append([*range(200), 7, 7, 8])
    workshop.deliver()
    workshop.update([*range(0, 200, 2), 7, 7, 7, 8], value=2.0)
    workshop.replace(rows([*range(150), 7, 9, 9], value=3.0))
    workshop.append([7, 7, 300, 300])
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE)
    batch.coalesce()
    return batch


@pytest.mark.parametrize(
    ("identifier_columns", "changes"), [(["id"], "each"), (["id"], "net"), (None, "each")], ids=str
)
def test_every_attempt_delivers_the_same_bytes(
    tmp_path: Path, identifier_columns: list[str] | None, changes: str
) -> None:
    workshop = Workshop.create(tmp_path)
    batch = open_batch(workshop, identifier_columns, changes)
    found = set()
    for attempt in range(ATTEMPTS):
        batch.store.delete(["results/00000.json"])
        for part in (tmp_path / "changes" / "batch=1").glob("part-*"):
            part.unlink()
        with pytest.MonkeyPatch.context() as patch:
            shuffled(patch, attempt)
            running = batch.running
            message = read_range(
                running.folder, running.folder_of_changes, 0, requests=running.requests, epoch=0
            ).message
        [part] = (tmp_path / "changes" / "batch=1").glob("part-*")
        found.add((message.hash_sum, message.rows, part.read_bytes()))
    assert len(found) == 1
    batch.run(Phase.SHUFFLE_READ)
    batch.commit()
    assert verify_batches(workshop.session()).is_equal
