"""A node answers members only, and gives exactly the bytes that a commit record names."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from pyarrow import flight

from icefloe.node import node_server
from icefloe.node.node_config import NodeConfig
from icefloe.node.node_folder import BUSY, READ, NodeLostError, PieceFault, encode_pieces
from icefloe.node.node_server import NodeServer
from support.nodes.members import member, strangers
from support.nodes.served_file import DATA, FILE, content, piece, read, served, waited
from support.servers.private_authority import PrivateAuthority


def client_of(address: str, authority: PrivateAuthority) -> flight.FlightClient:
    certificate, key, root = member(authority).pem()
    return flight.FlightClient(f"grpc+tls://{address}", tls_root_certs=root, cert_chain=certificate, private_key=key)


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
    assert fault == PieceFault(f"its node says {reason!r}")
    assert content(whole) == DATA[:5]


def test_an_offset_that_no_file_has_is_a_fault_and_the_others_come(node: str, authority: PrivateAuthority) -> None:
    # Reading there is an error of the node, not of its disk: the reader would give up all that the node keeps.
    beyond = 1 << 70
    fault, whole = read(node, member(authority), piece(beyond, beyond + 5), piece(0, 5), patience=2.0)
    assert fault == PieceFault(f"its node says 'bytes {beyond} to {beyond + 5} are not in a file of {len(DATA)} bytes'")
    assert content(whole) == DATA[:5]


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
        list(unknown.do_action(flight.Action(READ, b""), flight.FlightCallOptions(timeout=5)))
    plain = NodeConfig(version=1, plain=True)
    with pytest.raises(NodeLostError):
        read(node, plain, piece(0, 5), patience=0.5)


@pytest.mark.parametrize(
    "ticket", [b"", b"{}", b'{"version":2,"pieces":[]}', b'{"version":1,"pieces":[["a",0]]}', b"\xff"]
)
def test_a_request_that_is_none_is_refused(node: str, authority: PrivateAuthority, ticket: bytes) -> None:
    client = client_of(node, authority)
    with pytest.raises(flight.FlightServerError):
        list(client.do_action(flight.Action(READ, ticket), flight.FlightCallOptions(timeout=20)))


def test_as_many_requests_wait_as_are_answered_and_others_are_asked_to_come_again(
    config: NodeConfig, authority: PrivateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_server, "_QUEUE_SECONDS", 60.0)
    with served(config, NodeServer, requests_at_once=2) as (server, address), ThreadPoolExecutor(2) as readers:
        for _ in range(2):
            server._free.acquire()
        waiting = [readers.submit(read, address, member(authority), piece(0, 5)) for _ in range(2)]
        waited(lambda: server._queue._value == 0)
        client = client_of(address, authority)
        # A request that waits for its turn would end with an error at this time.
        action, options = flight.Action(READ, encode_pieces([piece(0, 5)])), flight.FlightCallOptions(timeout=20)
        assert [each.body.to_pybytes() for each in client.do_action(action, options)] == [BUSY]
        server._free.release(2)
        assert [content(found) for each in waiting for found in each.result()] == [DATA[:5]] * 2


def test_an_answer_that_nobody_takes_to_its_end_frees_its_place(
    config: NodeConfig, authority: PrivateAuthority
) -> None:
    with served(config, NodeServer, requests_at_once=1) as (_, address):
        client = client_of(address, authority)
        answer = client.do_action(flight.Action(READ, encode_pieces([piece(0, len(DATA))] * 20)))
        next(answer)
        del answer, client
        [found] = read(address, member(authority), piece(0, 5))
    assert not isinstance(found, PieceFault)


def test_a_reader_that_takes_little_costs_one_open_file(config: NodeConfig, authority: PrivateAuthority) -> None:
    file = f"{config.folder}/{FILE}"
    with served(config, NodeServer, requests_at_once=2) as (_, address):
        client = client_of(address, authority)
        action = flight.Action(READ, encode_pieces([piece(0, len(DATA))] * 200))
        answers = [client.do_action(action) for _ in range(2)]
        for answer in answers:
            next(answer)
        found = opened(file)
        del answer, answers, client
        waited(lambda: opened(file) == 0)
    assert 0 < found <= 2


def opened(file: str) -> int:
    """The number of times that this process has a file open."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(descriptor.readlink()))
    return found.count(file)
