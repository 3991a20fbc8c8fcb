"""The formats of requests to nodes, as docs/developers/formats.md defines them: written now like then."""

import json
import struct
from pathlib import Path

from icefloe.node.node_folder import Piece, decode_pieces, decode_rows, encode_pieces, encode_rows

GOLDEN = Path(__file__).parent / "golden"
ANSWER = [(0, False, bytes(range(10))), (1, True, b"it is gone"), (0, False, b"")]


def test_a_request_reads_as_documented() -> None:
    data = (GOLDEN / "request.json").read_bytes()
    document = json.loads(data)
    assert document["version"] == 1
    pieces = [Piece(*each) for each in document["pieces"]]
    assert (decode_pieces(data), encode_pieces(pieces)) == (pieces, data)


def test_an_answer_reads_as_documented() -> None:
    data = (GOLDEN / "answer").read_bytes()
    rows = [struct.unpack_from(">3I", data, 4 + 12 * number) for number in range(*struct.unpack_from(">I", data))]
    assert rows == [(0, 0, 10), (1, 1, 10), (0, 0, 0)]
    assert [(place, is_fault, bytes(part)) for place, is_fault, part in decode_rows(memoryview(data))] == ANSWER
    assert encode_rows(ANSWER) == data
