"""``icefloe node``: serve, drain and refill a machine."""

import errno
import os
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from demo.servers.free_port import free_port
from icefloe.node.node_config import CONFIG_VARIABLE
from icefloe.node.node_folder import NodeFolder
from support.nodes.machines import NodeMachine, member_file
from support.pipelines.workshop import Workshop
from support.pipelines.workspace import Workspace, icefloe
from support.servers.daemons import wait_until
from support.servers.private_authority import PrivateAuthority


@pytest.fixture
def machine(tmp_path: Path) -> NodeMachine:
    return NodeMachine.create(tmp_path / "machine", PrivateAuthority.create(tmp_path / "authority"))


def test_a_machine_is_drained_and_refilled(machine: NodeMachine) -> None:
    NodeFolder(machine.folder).put("5f0c/7/0.0.a1.data", b"whole")
    drained = icefloe("node", "--config", machine.config, "--drain")
    assert (drained.code, "1 files" in drained.out) == (0, True)
    assert NodeFolder(machine.folder).is_draining
    assert icefloe("node", "--config", machine.config, "--refill").code == 0
    assert not NodeFolder(machine.folder).is_draining


@pytest.mark.parametrize("option", ["--drain", "--refill"])
def test_a_machine_whose_folder_is_none_is_not_drained(machine: NodeMachine, option: str) -> None:
    machine.folder.write_bytes(b"")
    done = icefloe("node", "--config", machine.config, option)
    assert (done.code, "cannot be changed or counted: " in done.sentence) == (65, True)


def test_a_machine_whose_files_another_user_hides_is_not_said_to_be_empty(
    machine: NodeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    NodeFolder(machine.folder).put("5f0c/7/0.0.a1.data", b"whole")
    scan = os.scandir

    def refused(path: str | Path) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        if Path(path).name == "5f0c":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scan(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refused)
        done = icefloe("node", "--config", machine.config, "--drain")
    assert (done.code, "Permission denied" in done.sentence) == (65, True)


@pytest.mark.slow
def test_a_node_serves_alone_at_its_port_and_ends_well_when_it_is_stopped(machine: NodeMachine) -> None:
    machine.start()
    try:
        other = icefloe("node", "--config", machine.config)
    finally:
        machine.server.stop()
    assert (other.code, "another program has the port" in other.sentence) == (75, True)
    assert machine.server.exit_code == 0
    assert f"node 127.0.0.1:{machine.port} serves {machine.folder}" in machine.server.log.read_text()


def test_a_storage_with_a_variable_that_is_not_set_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKE", raising=False)
    authority = PrivateAuthority.create(tmp_path / "authority")
    machine = NodeMachine.create(tmp_path / "machine", authority, storages=["file:///lake", "s3://${LAKE}/icefloe"])
    refused = icefloe("node", "--config", machine.config)
    assert refused.code == 65
    assert f"storages of {machine.config} has s3://${{LAKE}}/icefloe, and that variable is not set" in refused.sentence


@pytest.mark.slow
def test_old_files_of_an_open_batch_stay_until_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop = Workshop.create(tmp_path / "workshop")
    monkeypatch.setenv("STORAGE", str(workshop.storage))
    workshop.append(range(20))
    batch = workshop.open().run_route()
    status = f"127.0.0.1:{free_port()}"
    machine = NodeMachine.create(
        tmp_path / "machine",
        PrivateAuthority.create(tmp_path / "authority"),
        storages=["file://${STORAGE}"],
        status=status,
    )
    own = f"{batch.folder.parent.name}/{batch.plan.batch_number}/0.0.a1.data"
    for path in (own, f"{'0' * 32}/7/0.0.a1.data"):
        NodeFolder(machine.folder).put(path, b"whole")
        os.utime(machine.folder / path, (0, 0))

    def expired() -> int:
        """The number of files that a node deletes at its start."""
        machine.start()
        try:
            wait_until(lambda: "deleted 1 files" in machine.server.log.read_text(), what="its look", seconds=60)
            with urllib.request.urlopen(f"http://{status}/metrics", timeout=20) as answer:
                return int(answer.read().decode().rpartition("icefloe_node_expired_files_total ")[2])
        finally:
            machine.server.stop()

    assert expired() == 1
    assert machine.outputs() == [machine.folder / own]
    batch.commit()
    machine.server.log.unlink()
    assert expired() == 1
    assert machine.outputs() == []


def test_a_configuration_that_cannot_serve_is_one_sentence(tmp_path: Path) -> None:
    reader = member_file(tmp_path / "reader.yaml", plain=True)
    assert icefloe("node", "--config", reader).code == 65
    assert icefloe("node", "--config", reader, "--drain").code == 65
    missing = icefloe("node", "--config", tmp_path / "missing.yaml")
    assert (missing.code, "cannot be read" in missing.sentence) == (65, True)


def test_validate_checks_the_configuration_of_its_machine(
    machine: NodeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace.create(tmp_path / "workspace")
    workspace.append(1, 2)
    pipeline = workspace.pipeline(shuffle={"transfer": "nodes"})
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    without = icefloe("validate", pipeline)
    assert without.code == 65
    assert f"{CONFIG_VARIABLE} is not set here" in without.out + without.err
    monkeypatch.setenv(CONFIG_VARIABLE, str(machine.config))
    found = icefloe("validate", pipeline)
    assert (found.code, f"map outputs of this machine are at 127.0.0.1:{machine.port}" in found.out) == (0, True)
