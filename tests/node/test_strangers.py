"""A node ends connections on which nobody asks for anything, and outlives the end of its open files."""

import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from demo.servers.free_port import free_port
from icefloe.node import node_server
from icefloe.node.node_client import NodeClients
from icefloe.node.node_config import NodeConfig, load_node_config
from icefloe.node.node_folder import NodeFolder
from icefloe.node.node_server import NodeServer
from support.nodes.machines import NodeMachine
from support.nodes.members import member
from support.nodes.served_file import DATA, FILE, content, piece, served, waited
from support.servers.private_authority import PrivateAuthority

LIMIT = 128


def silent(_: NodeConfig, connection: socket.socket) -> socket.socket:
    return connection


def a_handshake(config: NodeConfig, connection: socket.socket) -> socket.socket:
    context = ssl.create_default_context(cafile=str(config.authority))
    context.set_alpn_protocols(["h2"])
    assert config.certificate is not None
    context.load_cert_chain(config.certificate)
    return context.wrap_socket(connection, server_hostname="127.0.0.1")


def is_ended(connection: socket.socket) -> bool:
    """True if the other side has ended a connection on which it may have sent something before."""
    connection.settimeout(0.05)
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


@pytest.mark.parametrize("opened", [silent, a_handshake])
def test_a_connection_without_a_request_is_ended_in_time(
    config: NodeConfig,
    authority: PrivateAuthority,
    monkeypatch: pytest.MonkeyPatch,
    opened: Callable[[NodeConfig, socket.socket], socket.socket],
) -> None:
    stranger = member(authority)
    with (
        served(config, NodeServer) as (server, address),
        socket.create_connection(("127.0.0.1", server.port)) as plain,
    ):
        connection = opened(stranger, plain)
        reader = NodeClients(member(authority), patience=20)
        assert content(reader.read(address, [piece(0, 5)])[0]) == DATA[:5]
        waited(lambda: bool(looked(server)._strangers))
        [member_] = server.members
        assert not is_ended(connection)
        monkeypatch.setattr(node_server, "_STRANGER_SECONDS", 0.0)
        server.end_strangers()
        waited(lambda: is_ended(connection), seconds=10)
        waited(lambda: not looked(server)._strangers)
        # The reader is silent too, but has shown who it is.
        assert content(reader.read(address, [piece(0, 5)])[0]) == DATA[:5]
        assert server.members == {member_}
        del reader
        waited(lambda: not looked(server).members)
        connection.close()


def looked(server: NodeServer) -> NodeServer:
    server.end_strangers()
    return server


@pytest.mark.parametrize(
    ("listen", "host"), [("0.0.0.0", "127.0.0.1"), ("[::]", "127.0.0.1"), ("[::]", "[::1]"), ("[::1]", "[::1]")]
)
def test_a_member_is_known_by_any_form_of_its_address(
    config: NodeConfig, monkeypatch: pytest.MonkeyPatch, listen: str, host: str
) -> None:
    monkeypatch.setattr(node_server, "_STRANGER_SECONDS", -1.0)
    plain = NodeConfig(version=1, plain=True, address=f"{host}:{free_port()}", folder=config.folder, listen=listen)
    with NodeServer(plain) as server:
        reader = NodeClients(NodeConfig(version=1, plain=True), patience=20)
        assert content(reader.read(str(plain.address), [piece(0, 5)])[0]) == DATA[:5]
        [before] = server.members
        server.end_strangers()
        assert content(reader.read(str(plain.address), [piece(0, 5)])[0]) == DATA[:5]
        assert server.members == {before}


@pytest.mark.slow
def test_silent_connections_beyond_the_limit_of_files_do_not_use_a_node_up(
    authority: PrivateAuthority, tmp_path: Path
) -> None:
    few_files = ("sh", "-c", f'ulimit -n {LIMIT} && exec "$@"', "sh")
    machine = NodeMachine.create(tmp_path / "machine", authority, enter=few_files)
    NodeFolder(machine.folder).put(FILE, DATA)
    machine.start()
    reader = NodeClients(load_node_config(machine.config), patience=60)
    try:
        assert content(reader.read(machine.address, [piece(0, 5)])[0]) == DATA[:5]
        with ExitStack() as stack:
            for _ in range(3 * LIMIT):
                connection = stack.enter_context(socket.socket())
                connection.setblocking(False)
                connection.connect_ex(("127.0.0.1", machine.port))
            files = Path(f"/proc/{machine.server.pid}/fd")
            waited(lambda: len(list(files.iterdir())) >= LIMIT)
            other = NodeClients(load_node_config(machine.config), patience=15)
            for known in (reader, other):
                assert content(known.read(machine.address, [piece(0, len(DATA))])[0]) == DATA
            waited(lambda: len(list(files.iterdir())) <= LIMIT / 2)
        assert machine.server.exit_code is None
    finally:
        machine.server.stop()
