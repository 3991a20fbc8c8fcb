"""A machine reads and deletes its own map outputs without its node."""

from pathlib import Path

import pytest

from icefloe.errors import TerminalError
from icefloe.node.machine import Machine
from icefloe.node.node_config import CONFIG_VARIABLE
from icefloe.node.node_folder import Piece, PieceFault, split_node_key
from support.nodes.machines import member_file

BATCH = "5f0c/7"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine whose node does not run."""
    keys = {"address": "worker-1:4995", "folder": str(tmp_path / "outputs"), "plain": True}
    config = member_file(tmp_path / "node.yaml", **keys)
    return Machine({CONFIG_VARIABLE: str(config)}, keeps_outputs=True)


def test_its_own_outputs_need_no_node(machine: Machine, tmp_path: Path) -> None:
    place = machine.place_of(BATCH, generation=0)
    assert place is not None
    key = place.put("0.0.a.data", b"whole")
    assert key == "//worker-1:4995/5f0c/7/0.0.a.data"
    address, path = split_node_key(key)
    found, fault = machine.read(address, [Piece(path, 5, 1, 3), Piece(path, 6, 1, 3)])
    assert not isinstance(found, PieceFault)
    assert bytes(found) == b"ho"
    assert fault == PieceFault("it has 5 bytes, expected 6")
    machine.delete_batch(address, BATCH)
    assert not list((tmp_path / "outputs").iterdir())


def test_the_file_of_a_slower_attempt_is_deleted(machine: Machine, tmp_path: Path) -> None:
    place = machine.place_of(BATCH, generation=0)
    assert place is not None
    place.put("0.0.a.data", b"whole")
    place.put("0.0.b.data", b"whole")
    place.delete("0.0.b.data")
    assert [path.name for path in (tmp_path / "outputs" / BATCH).iterdir()] == ["0.0.a.data"]


def test_outputs_that_are_made_again_and_those_of_other_pipelines_go_to_the_store(machine: Machine) -> None:
    assert machine.place_of(BATCH, generation=1) is None
    assert Machine({}).place_of(BATCH, generation=0) is None


def test_a_machine_that_only_reads_keeps_nothing(tmp_path: Path) -> None:
    reader = member_file(tmp_path / "reader.yaml", plain=True)
    machine = Machine({CONFIG_VARIABLE: str(reader)}, keeps_outputs=True)
    assert machine.place_of(BATCH, generation=0) is None
    assert machine.check() == "this machine only reads from nodes"
    with pytest.raises(TerminalError, match="is not set here"):
        Machine({}).read("worker-1:4995", [])
