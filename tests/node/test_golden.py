"""The formats of map outputs at nodes, as docs/developers/formats.md defines them: written now like then."""

import json
import struct
import zlib
from pathlib import Path

import pytest

from icefloe.documents import dump_document
from icefloe.node.machine import BatchPlace
from icefloe.node.node_folder import NodeFolder, Piece, decode_pieces, decode_rows, encode_pieces, encode_rows
from icefloe.shuffle.coalesce import ReduceRange
from icefloe.shuffle.committed_output import MapOutputRecord
from icefloe.shuffle.extents import StoredExtents, write_extents
from icefloe.shuffle.map_output import MapOutputWriter
from shuffle.memory_store import MemoryStore
from shuffle.planned_extents import planned_extents
from shuffle.shuffled_rows import TABLE_SCHEMA, some_rows

GOLDEN = Path(__file__).parent / "golden"
ADDRESS = "worker-1:4995"
ANSWER = [(0, False, bytes(range(10))), (1, True, b"it is gone"), (0, False, b"")]


@pytest.fixture
def written(tmp_path: Path) -> dict[str, bytes]:
    store, rows = MemoryStore(), some_rows(12, num_partitions=4, ordinals=2)
    with MapOutputWriter(
        store, map_id=0, generation=0, attempt="a", schema=TABLE_SCHEMA, num_partitions=4, memory_bytes=1 << 20,
        place=BatchPlace(NodeFolder(tmp_path), ADDRESS, "5f0c/7"),
    ) as writer:  # fmt: skip
        rows.write(writer)
        record = writer.commit(bytes_read=999, bytes_decoded=1, seconds=1.5)
    assert (tmp_path / "5f0c/7/0.0.a.data").stat().st_size == (record.data.size_bytes if record.data else None)
    ranges = [ReduceRange(range_id=0, start=0, stop=4)]
    extents = planned_extents(store, [record], ranges, table_schema=TABLE_SCHEMA, num_partitions=4)
    write_extents(store, "0.extents", extents, extents[0].files)
    request = encode_pieces([Piece("5f0c/7/0.0.a.data", 90, 10, 20), Piece("5f0c/7/1.0.b.data", 30, 0, 30)])
    return {
        "0.0": store.objects["0.0"],
        "0.extents": store.objects["0.extents"],
        "request.json": request,
        "answer": encode_rows(ANSWER),
    }


@pytest.mark.parametrize("name", ["0.0", "0.extents", "request.json", "answer"])
def test_the_same_rows_give_the_same_bytes(written: dict[str, bytes], name: str) -> None:
    assert written[name] == (GOLDEN / name).read_bytes()


def test_a_record_names_the_node() -> None:
    record = MapOutputRecord.from_json((GOLDEN / "0.0").read_bytes(), map_id=0, generation=0)
    assert record.version == json.loads((GOLDEN / "0.0").read_bytes())["version"] == 1
    assert record.data is not None
    assert record.data.key == f"//{ADDRESS}/5f0c/7/0.0.a.data"
    assert dump_document(record) == (GOLDEN / "0.0").read_bytes()


def test_extents_of_a_node_are_read() -> None:
    data = (GOLDEN / "0.extents").read_bytes()
    assert struct.unpack_from(">4sI", data) == (b"IFEX", 1)
    assert struct.unpack_from(">I", data, 24) == (zlib.crc32(data[:24]),)
    store = MemoryStore()
    store.put("0.extents", data)
    [file] = StoredExtents.open(store, "0.extents").of(0).files
    assert file.data_key == f"//{ADDRESS}/5f0c/7/0.0.a.data"


def test_a_request_reads_as_documented() -> None:
    document = json.loads((GOLDEN / "request.json").read_bytes())
    assert document["version"] == 1
    assert [Piece(*each) for each in document["pieces"]] == decode_pieces((GOLDEN / "request.json").read_bytes())


def test_an_answer_reads_as_documented() -> None:
    data = (GOLDEN / "answer").read_bytes()
    rows = [struct.unpack_from(">3I", data, 4 + 12 * number) for number in range(*struct.unpack_from(">I", data))]
    assert rows == [(0, 0, 10), (1, 1, 10), (0, 0, 0)]
    assert [(place, is_fault, bytes(part)) for place, is_fault, part in decode_rows(memoryview(data))] == ANSWER
