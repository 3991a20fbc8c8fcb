"""A node counts what it serves, and says how it is."""

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from unittest.mock import Mock

import pytest
from pyarrow import flight

from demo.servers.free_port import free_port
from icefloe.errors import TransientError
from icefloe.node import node_counts, node_server
from icefloe.node.node_client import NodeClients
from icefloe.node.node_config import NodeConfig
from icefloe.node.node_counts import NodeCounts, status_served
from icefloe.node.node_folder import READ, encode_pieces
from icefloe.node.node_server import NodeServer, serve_node
from support.nodes.members import member
from support.nodes.served_file import DATA, content, piece, read, served, waited
from support.servers.private_authority import PrivateAuthority


def asked(address: str, path: str) -> tuple[int, str, str]:
    """Status, type and text of an answer."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=20) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def totals(text: str) -> dict[str, int]:
    """The numbers of Prometheus' text, which has a type for each name before its numbers."""
    typed: set[str] = set()
    found: dict[str, int] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split()
            assert kind == "counter"
            typed.add(name)
        elif not line.startswith("#"):
            name, number = line.split(" ")
            assert name.partition("{")[0] in typed
            found[name.removeprefix("icefloe_node_")] = int(number)
    assert text.endswith("\n")
    return found


@pytest.fixture
def status(config: NodeConfig) -> NodeConfig:
    return replace(config, status=f"127.0.0.1:{free_port()}")


@pytest.fixture
def server(status: NodeConfig) -> Iterator[NodeServer]:
    """A node with a status address."""
    with served(status, NodeServer, requests_at_once=1) as (found, _), status_served(status, found.counts):
        yield found


def test_every_request_is_counted_by_its_outcome(
    server: NodeServer, status: NodeConfig, authority: PrivateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_server, "_QUEUE_SECONDS", 0.01)
    address, reader = f"127.0.0.1:{server.port}", member(authority)
    certificate, key, root = reader.pem()
    client = flight.FlightClient(f"grpc+tls://{address}", tls_root_certs=root, cert_chain=certificate, private_key=key)
    whole, _ = read(address, reader, piece(0, len(DATA)), piece(0, 5, "5f0c/9/0.0.a1.data"))
    assert content(whole) == DATA
    for action in (flight.Action(READ, b"{"), flight.Action("other", b"")):
        with pytest.raises((flight.FlightError, NotImplementedError)):
            list(client.do_action(action))
    answer = client.do_action(flight.Action(READ, encode_pieces([piece(0, len(DATA))] * 20)))
    next(answer)
    list(client.do_action(flight.Action(READ, encode_pieces([piece(0, 5)]))))
    del answer
    NodeClients(reader, patience=20).delete_batch(address, "5f0c/8")

    def found() -> dict[str, int]:
        code, kind, text = asked(str(status.status), "/metrics")
        assert (code, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        return totals(text)

    waited(lambda: found()['requests_total{outcome="unfinished"}'] == 1)
    counted = found()
    outcomes = {name: counted[f'requests_total{{outcome="{name}"}}'] for name in node_counts._OUTCOMES}
    assert outcomes == {"served": 1, "busy": 1, "refused": 2, "unfinished": 1, "deleted": 1}
    assert counted["missing_pieces_total"] == 1
    assert len(DATA) < counted["bytes_total"] < 20 * len(DATA)


def test_health_is_what_the_loop_of_the_node_says(
    server: NodeServer, status: NodeConfig, config: NodeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = str(status.status)
    assert asked(address, "/health") == (200, "application/json", '{"status": "ok", "is_draining": false}\n')
    config.kept_folder.drain()
    try:
        assert json.loads(asked(address, "/health")[2])["is_draining"] is True
    finally:
        config.kept_folder.refill()
    server.counts.looked_at = time.monotonic() - 31
    assert asked(address, "/health")[::2] == (503, '{"status": "stuck", "is_draining": false}\n')
    assert asked(address, "/../etc/passwd")[0] == 404


def is_ended(connection: socket.socket, said: bytes = b"") -> bool:
    """True if the other side has ended a connection, to which this one says something more."""
    connection.settimeout(0.05)
    try:
        connection.sendall(said)
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_byte_now_and_then_buys_no_time_on_the_status_address(
    server: NodeServer, status: NodeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_counts, "_SECONDS", 0.5)
    with socket.create_connection(("127.0.0.1", int(str(status.status).rpartition(":")[2]))) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        waited(lambda: is_ended(slow, b"x"), seconds=10)


def test_connections_to_the_status_address_take_few_open_files_and_nobodys_place(
    server: NodeServer, status: NodeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_counts, "_SECONDS", 600.0)
    address = ("127.0.0.1", int(str(status.status).rpartition(":")[2]))
    with ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection(address)) for _ in range(24)]
        waited(lambda: sum(map(is_ended, opened)) >= len(opened) - node_counts._AT_ONCE)
        assert asked(str(status.status), "/health")[0] == 200


def test_a_node_whose_look_fails_is_not_well(config: NodeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_server, "_LOOK_SECONDS", 0.01)
    stop = threading.Event()

    def end_strangers() -> None:
        stop.set()
        raise OSError("no file is left")

    with served(config, NodeServer) as (found, _):
        found.counts.looked_at = 0.0
        monkeypatch.setattr(found, "end_strangers", end_strangers)
        node_server._serve(found, config, config.pem(), stop)
        assert found.counts.looked_at == 0.0


def test_a_node_with_new_certificates_counts_on(config: NodeConfig, authority: PrivateAuthority) -> None:
    with served(config, NodeServer) as (found, address):
        renewed = node_server._replaced(found, replace(config, address=address), config.pem(), threading.Event())
        with renewed:
            read(address, member(authority), piece(0, 5))
            waited(lambda: 'outcome="served"} 1' in found.counts.prometheus())
            renewed.counts.looked_at = 7.0
            assert found.counts.looked_at == 7.0


def test_a_node_is_well_while_it_serves(status: NodeConfig, config: NodeConfig) -> None:
    own = replace(status, address=f"127.0.0.1:{free_port()}")
    stop, ready = threading.Event(), threading.Event()
    thread = threading.Thread(target=serve_node, args=(own, stop), kwargs={"say": lambda _: ready.set()})
    thread.start()
    try:
        assert ready.wait(60)
        assert asked(str(own.status), "/health")[0] == 200
    finally:
        stop.set()
        thread.join()
    with pytest.raises(urllib.error.URLError):
        asked(str(own.status), "/health")


def test_a_node_sends_its_counts_again_and_again(
    config: NodeConfig, authority: PrivateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_server, "_SEND_SECONDS", 0.05)
    stop, ready = threading.Event(), threading.Event()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as statsd:
        statsd.bind(("127.0.0.1", 0))
        statsd.settimeout(20)
        own = replace(config, address=f"127.0.0.1:{free_port()}", statsd=f"127.0.0.1:{statsd.getsockname()[1]}")
        thread = threading.Thread(target=serve_node, args=(own, stop), kwargs={"say": lambda _: ready.set()})
        thread.start()
        try:
            assert ready.wait(60)
            for _ in range(2):
                read(str(own.address), member(authority), piece(0, 5))
                found = ""
                while "requests.served:1|c" not in found:
                    found = statsd.recv(4096).decode()
        finally:
            stop.set()
            thread.join()


def test_a_status_address_that_is_taken_is_one_sentence(config: NodeConfig) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        own = replace(config, status=f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(TransientError, match="the node cannot answer on its status address 127"):
            status_served(own, NodeCounts()).__enter__()


def test_statsd_gets_what_was_added_since_the_last_time(config: NodeConfig) -> None:
    counts = NodeCounts()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as statsd:
        statsd.bind(("127.0.0.1", 0))
        statsd.settimeout(20)
        own = replace(config, address="worker-1.example.com:4995", statsd=f"127.0.0.1:{statsd.getsockname()[1]}")
        counts.send(own)
        counts.add("requests.served", 2)
        counts.add("bytes", 700)
        counts.send(own)
        counts.add("bytes", 1)
        counts.send(own)
        node = "icefloe.node.worker-1_example_com_4995"
        assert statsd.recv(4096).decode().split("\n") == [f"{node}.requests.served:2|c", f"{node}.bytes:700|c"]
        assert statsd.recv(4096).decode() == f"{node}.bytes:1|c"


def test_counts_that_could_not_be_sent_are_sent_the_next_time(
    config: NodeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = NodeCounts()
    counts.add("bytes", 700)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as statsd:
        statsd.bind(("127.0.0.1", 0))
        statsd.settimeout(20)
        own = replace(config, address="worker:4995", statsd=f"127.0.0.1:{statsd.getsockname()[1]}")
        with monkeypatch.context() as patches:
            patches.setattr(socket, "getaddrinfo", Mock(side_effect=socket.gaierror("the name is not known now")))
            with pytest.raises(OSError, match="not known now"):
                counts.send(own)
        counts.send(own)
        assert statsd.recv(4096).decode() == "icefloe.node.worker_4995.bytes:700|c"
