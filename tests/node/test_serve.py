"""A node that is renewed while it serves."""

import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from demo.servers.free_port import free_port
from icefloe.errors import TerminalError, TransientError
from icefloe.node import node_server
from icefloe.node.node_client import NodeClients
from icefloe.node.node_config import NodeConfig, Pem
from icefloe.node.node_server import NodeServer, serve_node
from support.nodes.members import is_shown, member
from support.nodes.served_file import DATA, content, piece, waited
from support.servers.private_authority import PrivateAuthority


def serving(config: NodeConfig, stop: threading.Event) -> threading.Thread:
    ready = threading.Event()
    thread = threading.Thread(target=serve_node, args=(config, stop), kwargs={"say": lambda _: ready.set()})
    thread.start()
    assert ready.wait(60)
    return thread


@pytest.mark.slow
def test_renewed_certificates_are_shown_and_no_fetch_is_lost(
    config: NodeConfig,
    authority: PrivateAuthority,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = tmp_path / "own.pem"
    own.write_bytes(authority.issue(holder="first").read_bytes())
    renewed = replace(config, certificate=own, key=own, address=f"127.0.0.1:{free_port()}")
    stop, found, is_over = threading.Event(), [], threading.Event()
    thread = serving(renewed, stop)
    clients = NodeClients(member(authority), patience=60)

    def gone(*_: object) -> bool:
        """The file is gone as soon as the new certificate was found usable, and stays so while the port changes."""
        own.unlink()
        return True

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
        with monkeypatch.context() as patches:
            patches.setattr(node_server, "_is_usable", gone)
            authority.issue(holder="third").rename(own)
            reader_file = authority.issue()
            waited(lambda: is_shown("third", renewed, reader_file))
    finally:
        is_over.set()
        reader.join()
        stop.set()
        thread.join()
    assert all(found)


@pytest.mark.timeout(60)
def test_a_node_that_does_not_get_its_port_back_says_so_and_ends(
    config: NodeConfig, authority: PrivateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.pem"
    own.write_bytes(authority.issue(holder="first").read_bytes())
    renewed = replace(config, certificate=own, key=own, address=f"127.0.0.1:{free_port()}")
    monkeypatch.setattr(node_server, "_MOST_SECONDS_WITHOUT_PORT", 0.3)
    start = node_server._started

    def taken(config: NodeConfig, pem: Pem, *, at: str = "") -> NodeServer:
        if not at and b"second" in own.read_bytes():
            raise TransientError("another program has the port")
        return start(config, pem, at=at)

    def renew(_: str) -> None:
        own.write_bytes(authority.issue(holder="second").read_bytes() + b"# second")

    monkeypatch.setattr(node_server, "_started", taken)
    with pytest.raises(
        TransientError, match=r"^node 127\.0\.0\.1:\d+ has served nobody for .*has the port\)$"
    ) as ended:
        serve_node(renewed, threading.Event(), say=renew)
    assert ended.value.exit_code == 75


def test_a_node_with_nothing_to_serve_opens_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(NodeConfig, "port", taken.getsockname()[1])
        config = NodeConfig(version=1, plain=True, listen="127.0.0.1")
        with pytest.raises(TerminalError, match="neither folder nor address"):
            serve_node(config, threading.Event(), say=print)
