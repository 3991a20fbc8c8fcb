"""A reader of a node believes no answer that it did not ask for."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from demo.servers.free_port import free_port
from icefloe.node import node_client
from icefloe.node.messages import (
    ANSWER,
    BUSY,
    NodeBusyError,
    NodeLostError,
    PieceFault,
    answer_batch,
)
from icefloe.node.node_config import NodeConfig, NodeConfigError
from icefloe.node.node_folder import NodeFolder
from icefloe.node.node_server import NodeServer
from support.nodes.members import member
from support.nodes.served_file import DATA, content, piece, read
from support.servers.private_authority import PrivateAuthority


class Lying(NodeServer):
    """Answers with other rows."""

    rows: Sequence[tuple[int, str | None, bytes | None]] = ()

    def do_get(self, context: Any, ticket: Any) -> Any:  # noqa: ARG002 - Flight's own signature
        return flight.GeneratorStream(
            ANSWER, (answer_batch([place], [fault], [data]) for place, fault, data in self.rows)
        )


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([(0, None, b"abcd")], "its node answered 4 bytes for 0 to 5"),
        ([(0, None, b"abcde"), (0, None, b"f")], "its node answered more bytes than were asked for"),
        ([(0, None, b"x" * (1 << 20))] * 1000, "its node answered more bytes than were asked for"),
        ([(7, None, b"")], "its node answered more bytes than were asked for"),
        ([], "its node answered 0 bytes for 0 to 5"),
    ],
)
def test_an_answer_with_other_bytes_is_a_fault(
    config: NodeConfig, authority: PrivateAuthority, rows: list[tuple[int, str | None, bytes | None]], reason: str
) -> None:
    assert config.folder is not None
    lying = replace(config, address=f"127.0.0.1:{free_port()}")
    with Lying(lying, NodeFolder(config.folder)) as server:
        server.rows = rows
        assert read(str(lying.address), member(authority), piece(0, 5)) == [PieceFault(reason)]


def offset_back() -> pa.RecordBatch:
    """Three rows, the second of which ends before it begins."""
    offsets = pa.py_buffer(np.array([0, 5, 2, 5], np.int32))
    data = pa.Array.from_buffers(pa.binary(), 3, [None, offsets, pa.py_buffer(b"abcde")])
    return pa.RecordBatch.from_arrays([pa.array([0, 0, 0], pa.uint32()), pa.nulls(3, pa.string()), data], schema=ANSWER)


@pytest.mark.parametrize(
    "batch",
    [
        pa.record_batch({"data": [b"abcde"]}),
        pa.record_batch({"piece": pa.array([None], pa.uint32()), "fault": [None], "data": [b"abcde"]}, schema=ANSWER),
        offset_back(),
    ],
    ids=["other columns", "no place", "offsets that go back"],
)
def test_an_answer_of_another_form_is_a_fault(
    config: NodeConfig, authority: PrivateAuthority, batch: pa.RecordBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert config.folder is not None
    monkeypatch.setattr(Lying, "do_get", lambda *_: flight.GeneratorStream(batch.schema, iter([batch])))
    lying = replace(config, address=f"127.0.0.1:{free_port()}")
    with Lying(lying, NodeFolder(config.folder)):
        found = read(str(lying.address), member(authority), piece(0, 5))
    assert found == [PieceFault("its node answered in another form")]


def test_a_node_that_answers_only_others_is_not_lost(
    config: NodeConfig, authority: PrivateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_client, "_BUSY_TIMES", 0)
    assert config.folder is not None
    busy = replace(config, address=f"127.0.0.1:{free_port()}")
    with Lying(busy, NodeFolder(config.folder)) as server:
        server.rows = [(BUSY, "busy", None)]
        with pytest.raises(NodeBusyError, match="raise requests_at_once"):
            read(str(busy.address), member(authority), piece(0, 5))


def test_a_certificate_that_is_gone_for_a_moment_loses_no_fetch(
    node: str, authority: PrivateAuthority, tmp_path: Path
) -> None:
    own, known = tmp_path / "own.pem", member(authority)
    assert known.key is not None
    renewed = replace(known, certificate=own, key=own)
    back = threading.Timer(0.3, own.write_bytes, [known.key.read_bytes()])
    back.start()
    [found] = read(node, renewed, piece(0, 5))
    back.join()
    assert content(found) == DATA[:5]
    own.unlink()
    with pytest.raises(NodeConfigError, match="a certificate of this node cannot be read"):
        read(node, renewed, piece(0, 5), patience=0.5)


def test_a_node_that_answers_a_byte_now_and_then_is_lost(
    config: NodeConfig, authority: PrivateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()

    def trickle() -> Iterator[pa.RecordBatch]:
        while not is_over.wait(0.05):
            yield answer_batch([0], [None], [b"x"])

    monkeypatch.setattr(Lying, "do_get", lambda *_: flight.GeneratorStream(ANSWER, trickle()))
    monkeypatch.setattr(node_client, "_SLOWEST_BYTES_PER_SECOND", len(DATA))
    assert config.folder is not None
    slow = replace(config, address=f"127.0.0.1:{free_port()}")
    with Lying(slow, NodeFolder(config.folder)):
        try:
            with pytest.raises(NodeLostError):
                read(str(slow.address), member(authority), piece(0, len(DATA)), patience=0.0)
        finally:
            is_over.set()
