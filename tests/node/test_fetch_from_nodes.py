"""The requests by which a range is fetched from nodes."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from icefloe.node.machine import Machine
from icefloe.node.node_folder import NodeLostError, Piece, PieceFault, node_key
from icefloe.shuffle import fetch
from icefloe.shuffle.blocks import BlockRows
from icefloe.shuffle.coalesce import ReduceRange
from icefloe.shuffle.committed_output import CorruptMapOutputError
from icefloe.shuffle.extents import RangeExtents
from icefloe.shuffle.fetch import fetch_blocks
from icefloe.storage.store import Store
from shuffle.memory_store import MemoryStore
from shuffle.planned_extents import planned_extents
from shuffle.shuffled_rows import TABLE_SCHEMA, commit_rows, some_rows

PARTITIONS = 8
ROWS = (50, 70, 60)
NODES = ("even:4995", "odd:4995")
BATCH = "5f0c/7/"


class Nodes(Machine):
    """Nodes whose files are in a store.

    Attributes:
        requests: the address and the pieces of each request.
    """

    def __init__(self, store: Store, away: str = "") -> None:
        super().__init__({})
        self.requests: list[tuple[str, Sequence[Piece]]] = []
        self._store, self._away = store, away

    def read(self, address: str, pieces: Sequence[Piece]) -> list[memoryview | PieceFault]:
        if address == self._away:
            raise NodeLostError("it is away", reason="it is away", is_busy=False)
        self.requests.append((address, pieces))
        return [
            memoryview(self._store.get_ranges(piece.path.removeprefix(BATCH), [(piece.start, piece.stop)])[0])
            for piece in pieces
        ]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def extents(store: MemoryStore) -> RangeExtents:
    """One range over three map outputs: two of one node, one of the other."""
    records = [
        commit_rows(
            store,
            some_rows(rows, num_partitions=PARTITIONS, first_id=100 * each),
            num_partitions=PARTITIONS,
            map_id=each,
        )
        for each, rows in enumerate(ROWS)
    ]
    whole = [ReduceRange(range_id=0, start=0, stop=PARTITIONS)]
    [found] = planned_extents(store, records, whole, table_schema=TABLE_SCHEMA, num_partitions=PARTITIONS)
    files = [file._replace(data_key=node_key(NODES[file.map_id % 2], BATCH + file.data_key)) for file in found.files]
    return replace(found, files=files)


def fetched_ids(store: Store, extents: RangeExtents, nodes: Nodes, *, max_fetch_bytes: int) -> list[int]:
    blocks = fetch_blocks(
        store, extents, BlockRows.schema(TABLE_SCHEMA), max_fetch_bytes=max_fetch_bytes, machine=nodes
    )
    return sorted(number for block in blocks for number in pa.Table.from_batches(block.batches)["id"].to_pylist())


def every_id() -> list[int]:
    return [100 * each + number for each, rows in enumerate(ROWS) for number in range(rows)]


def test_a_range_asks_each_node_once_for_all_its_blocks(store: MemoryStore, extents: RangeExtents) -> None:
    nodes = Nodes(store)
    assert fetched_ids(store, extents, nodes, max_fetch_bytes=1 << 20) == every_id()
    assert sorted((address, len(pieces)) for address, pieces in nodes.requests) == [(NODES[0], 2), (NODES[1], 1)]


def test_a_block_larger_than_a_reader_fetches_at_once_comes_in_pieces(
    store: MemoryStore, extents: RangeExtents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_LEAST_PIECE_BYTES", 1)
    assert min(extents.blocks["length"]) > 100
    nodes = Nodes(store)
    assert fetched_ids(store, extents, nodes, max_fetch_bytes=100) == every_id()
    assert max(sum(piece.stop - piece.start for piece in pieces) for _, pieces in nodes.requests) == 100


@pytest.mark.parametrize("max_fetch_bytes", [100, 1 << 20])
def test_a_node_that_is_away_loses_all_its_outputs(
    store: MemoryStore, extents: RangeExtents, max_fetch_bytes: int
) -> None:
    with pytest.raises(CorruptMapOutputError) as caught:
        fetched_ids(store, extents, Nodes(store, away=NODES[0]), max_fetch_bytes=max_fetch_bytes)
    assert caught.value.outputs == ((0, 0), (2, 0))
