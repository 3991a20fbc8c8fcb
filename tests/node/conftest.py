"""Nodes of the tests: one that serves a file in this process, and two machines with their processes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from demo.servers.free_port import free_port
from icefloe.node.node_config import CONFIG_VARIABLE, NodeConfig
from icefloe.node.node_folder import NodeFolder
from icefloe.node.node_server import NodeServer
from icefloe.patience import silence_of
from support.nodes.held_outputs import SHUFFLE
from support.nodes.machines import TwoMachines
from support.nodes.members import member
from support.nodes.served_file import DATA, FILE
from support.pipelines.workshop import Workshop
from support.servers.private_authority import PrivateAuthority


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
    with NodeServer(config):
        yield str(config.address)


@pytest.fixture(scope="module")
def started(authority: PrivateAuthority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoMachines]:
    found = TwoMachines(tmp_path_factory.mktemp("machines"), authority).start()
    yield found
    found.stop()


@pytest.fixture
def machines(started: TwoMachines, monkeypatch: pytest.MonkeyPatch) -> TwoMachines:
    """Both nodes, up again after what an earlier test did to them; this process only reads from them."""
    for node in started.nodes:
        if node.server.exit_code is not None:
            node.start()
        node.resume()
    silence_of.cache_clear()
    monkeypatch.setenv(CONFIG_VARIABLE, str(started.reader))
    return started


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop.create(tmp_path)
    for start in (0, 50, 100, 150):
        workshop.append(range(start, start + 50))
    workshop.deliver()
    workshop.update([1, 60, 110, 170], value=2.0)
    workshop.delete(range(40, 55))
    return workshop.set(shuffle=SHUFFLE)
