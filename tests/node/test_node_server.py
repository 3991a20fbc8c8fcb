"""A node answers members only, and gives exactly the bytes that a commit record names."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from demo.servers.free_port import free_port
from icefloe.node import node_client, node_server
from icefloe.node.messages import (
    ANSWER,
    BUSY,
    NodeBusyError,
    NodeLostError,
    Piece,
    PieceFault,
    answer_batch,
    encode_pieces,
)
from icefloe.node.node_client import NodeClients
from icefloe.node.node_config import NodeConfig
from icefloe.node.node_folder import NodeFolder
from icefloe.node.node_server import NodeServer
from icefloe.node.serve import serve_node
from support.nodes.members import is_shown, member, strangers
from support.servers.private_authority import PrivateAuthority

FILE = "5f0c/7/0.0.a1.data"
DATA = os.urandom(9 << 20)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> PrivateAuthority:
    return PrivateAuthority.create(tmp_path_factory.mktemp("node") / "authority")


@pytest.fixture(scope="module")
def config(authority: PrivateAuthority, tmp_path_factory: pytest.TempPathFactory) -> NodeConfig:
    folder = tmp_path_factory.mktemp("outputs")
    NodeFolder(folder).put(FILE, DATA)
    (folder.parent / "secret.data").write_bytes(b"secret")
    return replace(member(authority), address=f"127.0.0.1:{free_port()}", folder=folder, listen="127.0.0.1")


@pytest.fixture(scope="module")
def node(config: NodeConfig) -> Iterator[str]:
    """The address of a node that serves one file."""
    assert config.folder is not None
    with NodeServer(config, NodeFolder(config.folder)):
        yield str(config.address)


def read(node: str, reader: NodeConfig, *pieces: Piece, patience: float = 20.0) -> list[memoryview | PieceFault]:
    return NodeClients(reader, patience=patience).read(node, pieces)


def content(found: memoryview | PieceFault) -> bytes:
    assert not isinstance(found, PieceFault), found
    return bytes(found)


def piece(start: int, stop: int, path: str = FILE, size_bytes: int = len(DATA)) -> Piece:
    return Piece(path, size_bytes, start, stop)


def test_pieces_of_any_size_come_in_the_order_of_the_request(node: str, authority: PrivateAuthority) -> None:
    wanted = [(5, 7), (0, len(DATA)), (3, 3), (len(DATA) - 1, len(DATA)), (1 << 20, 6 << 20), (0, 300_000)]
    found = read(node, member(authority), *(piece(*each) for each in wanted))
    assert [content(each) for each in found] == [DATA[start:stop] for start, stop in wanted]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../secret.data", "no map output has such a path"),
        ("5f0c/7/../../../secret.data", "no map output has such a path"),
        ("/etc/hostname", "no map output has such a path"),
        ("5f0c/7/.draining", "no map output has such a path"),
        ("5f0c/7/0.0.a1.data\n", "no map output has such a path"),
        ("5f0c/7/0.0.a1.part", "no map output has such a path"),
        ("5f0c/8/0.0.a1.data", "it is gone"),
        ("", "no map output has such a path"),
    ],
)
def test_another_path_is_a_fault_and_the_others_come(
    node: str, authority: PrivateAuthority, path: str, reason: str
) -> None:
    fault, whole = read(node, member(authority), piece(0, 5, path), piece(0, 5))
    assert fault == PieceFault(reason)
    assert content(whole) == DATA[:5]


@pytest.mark.parametrize(
    ("start", "stop", "size_bytes"),
    [(-1, 5, len(DATA)), (5, 4, len(DATA)), (0, len(DATA) + 1, len(DATA)), (0, 5, len(DATA) - 1), (0, 5, 1 << 70)],
)
def test_bytes_that_the_commit_record_does_not_name_are_a_fault(
    node: str, authority: PrivateAuthority, start: int, stop: int, size_bytes: int
) -> None:
    [found] = read(node, member(authority), piece(start, stop, size_bytes=size_bytes))
    assert isinstance(found, PieceFault)


def test_a_link_is_not_followed(node: str, config: NodeConfig, authority: PrivateAuthority) -> None:
    assert config.folder is not None
    link = config.folder / "5f0c/7/9.0.a1.data"
    link.symlink_to(config.folder.parent / "secret.data")
    try:
        [found] = read(node, member(authority), piece(0, 6, "5f0c/7/9.0.a1.data", 6))
    finally:
        link.unlink()
    assert isinstance(found, PieceFault)


@pytest.mark.parametrize(
    "name", ["signed by another authority", "expired", "of a reader that trusts another authority"]
)
def test_no_byte_is_read_by_a_certificate(node: str, authority: PrivateAuthority, tmp_path: Path, name: str) -> None:
    with pytest.raises(NodeLostError):
        read(node, strangers(authority, tmp_path)[name], piece(0, 5), patience=0.5)


def test_no_byte_is_read_without_a_certificate(node: str, authority: PrivateAuthority) -> None:
    unknown = flight.FlightClient(f"grpc+tls://{node}", tls_root_certs=authority.bundle.read_bytes())
    with pytest.raises(flight.FlightError):
        list(unknown.do_get(flight.Ticket(b""), flight.FlightCallOptions(timeout=5)))
    plain = NodeConfig(version=1, plain=True)
    with pytest.raises(NodeLostError):
        read(node, plain, piece(0, 5), patience=0.5)


@pytest.mark.parametrize(
    "ticket", [b"", b"{}", b'{"version":2,"pieces":[]}', b'{"version":1,"pieces":[["a",0]]}', b"\xff"]
)
def test_a_request_that_is_none_is_refused(node: str, authority: PrivateAuthority, ticket: bytes) -> None:
    certificate, key, root = member(authority).pem()
    client = flight.FlightClient(f"grpc+tls://{node}", tls_root_certs=root, cert_chain=certificate, private_key=key)
    with pytest.raises(flight.FlightServerError):
        list(client.do_get(flight.Ticket(ticket), flight.FlightCallOptions(timeout=20)))


def test_more_requests_than_allowed_wait_and_are_answered(config: NodeConfig, authority: PrivateAuthority) -> None:
    assert config.folder is not None
    few = replace(config, address=f"127.0.0.1:{free_port()}", requests_at_once=1)
    with NodeServer(few, NodeFolder(config.folder)):
        clients, found = NodeClients(member(authority), patience=60), []
        readers = [
            threading.Thread(target=lambda: found.extend(clients.read(str(few.address), [piece(0, len(DATA))])))
            for _ in range(6)
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    assert [content(each) == DATA for each in found] == [True] * 6


def test_as_many_requests_wait_as_are_answered_and_others_are_asked_to_come_again(
    config: NodeConfig, authority: PrivateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_server, "_QUEUE_SECONDS", 60.0)
    assert config.folder is not None
    full = replace(config, address=f"127.0.0.1:{free_port()}", requests_at_once=2)
    certificate, key, root = member(authority).pem()
    with NodeServer(full, NodeFolder(config.folder)) as server, ThreadPoolExecutor(2) as readers:
        for _ in range(2):
            server._free.acquire()
        waiting = [readers.submit(read, str(full.address), member(authority), piece(0, 5)) for _ in range(2)]
        waited(lambda: server._queue._value == 0)
        client = flight.FlightClient(
            f"grpc+tls://{full.address}", tls_root_certs=root, cert_chain=certificate, private_key=key
        )
        # A request that waits for its turn would end with an error at this time.
        ticket, options = flight.Ticket(encode_pieces([piece(0, 5)])), flight.FlightCallOptions(timeout=20)
        assert client.do_get(ticket, options).read_all()["piece"].to_pylist() == [BUSY]
        server._free.release(2)
        assert [content(found) for each in waiting for found in each.result()] == [DATA[:5]] * 2


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


def test_an_answer_that_nobody_takes_to_its_end_frees_its_place(
    config: NodeConfig, authority: PrivateAuthority
) -> None:
    assert config.folder is not None
    one = replace(config, address=f"127.0.0.1:{free_port()}", requests_at_once=1)
    certificate, key, root = member(authority).pem()
    with NodeServer(one, NodeFolder(config.folder)):
        client = flight.FlightClient(
            f"grpc+tls://{one.address}", tls_root_certs=root, cert_chain=certificate, private_key=key
        )
        stream = client.do_get(flight.Ticket(encode_pieces([piece(0, len(DATA))] * 20)))
        stream.read_chunk()
        stream.cancel()
        del stream, client
        [found] = read(str(one.address), member(authority), piece(0, 5))
    assert not isinstance(found, PieceFault)


def test_a_reader_that_takes_little_costs_one_open_file(config: NodeConfig, authority: PrivateAuthority) -> None:
    assert config.folder is not None
    file = str(config.folder / FILE)
    two = replace(config, address=f"127.0.0.1:{free_port()}", requests_at_once=2)
    certificate, key, root = member(authority).pem()
    with NodeServer(two, NodeFolder(config.folder)):
        client = flight.FlightClient(
            f"grpc+tls://{two.address}", tls_root_certs=root, cert_chain=certificate, private_key=key
        )
        ticket = flight.Ticket(encode_pieces([piece(0, len(DATA))] * 200))
        streams = [client.do_get(ticket) for _ in range(2)]
        for stream in streams:
            stream.read_chunk()
        found = opened(file)
        for stream in streams:
            stream.cancel()
        del stream, streams, client
        waited(lambda: opened(file) == 0)
    assert 0 < found <= 2


def opened(file: str) -> int:
    """The number of times that this process has a file open."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(descriptor.readlink()))
    return found.count(file)


def serving(config: NodeConfig, stop: threading.Event) -> threading.Thread:
    ready = threading.Event()
    thread = threading.Thread(target=serve_node, args=(config, stop), kwargs={"say": lambda _: ready.set()})
    thread.start()
    assert ready.wait(60)
    return thread


def test_renewed_certificates_are_shown_and_no_fetch_is_lost(
    config: NodeConfig, authority: PrivateAuthority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = tmp_path / "own.pem"
    own.write_bytes(authority.issue(holder="first").read_bytes())
    renewed = replace(config, certificate=own, key=own, address=f"127.0.0.1:{free_port()}")
    stop, found, is_over = threading.Event(), [], threading.Event()
    thread = serving(renewed, stop)
    clients = NodeClients(member(authority), patience=60)

    def fetch() -> None:
        while not is_over.is_set():
            found.append(content(clients.read(str(renewed.address), [piece(0, len(DATA))])[0]) == DATA)

    reader = threading.Thread(target=fetch)
    reader.start()
    try:
        waited(lambda: len(found) > 2)
        own.write_bytes(b"half of a renewal")
        waited(lambda: "the new certificates are not used yet" in caplog.text)
        waited_more = len(found) + 3
        waited(lambda: len(found) > waited_more)
        own.write_bytes(authority.issue(holder="second").read_bytes())
        waited(lambda: is_shown("second", renewed, own))
        waited_more = len(found) + 3
        waited(lambda: len(found) > waited_more)
    finally:
        is_over.set()
        reader.join()
        stop.set()
        thread.join()
    assert all(found)


def waited(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits for a state."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.05)):
        if condition():
            return
        pause.wait(0.05)
    raise AssertionError("it did not come about")
