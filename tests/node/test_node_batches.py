"""Batches whose map outputs stay on two machines, while their nodes are well, full or lie."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from icefloe.batch.context.batch_folder import MapInputs
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.flow import Phase
from icefloe.node.machine import BatchPlace, Machine
from icefloe.node.node_config import CONFIG_VARIABLE
from icefloe.node.node_folder import split_node_key
from support.nodes.elsewhere import Elsewhere
from support.nodes.held_outputs import (
    SHUFFLE,
    data_key,
    held_by,
    nodes_lost,
    records,
    require_exact,
    require_made_again,
)
from support.nodes.machines import TwoMachines
from support.pipelines.sweeping import swept
from support.pipelines.workshop import Workshop
from support.servers.daemons import wait_until

pytestmark = pytest.mark.slow


def test_map_outputs_stay_on_the_machines_and_give_the_same_parts(machines: TwoMachines, workshop: Workshop) -> None:
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    assert all(split_node_key(data_key(each))[0] != "" for each in records(batch))
    assert all(held_by(node, batch) for node in machines.nodes)
    assert not list(batch.folder.glob("*.data"))
    batch.coalesce()
    batch.run(Phase.SHUFFLE_READ, machines)
    require_made_again(batch, set())
    assert not nodes_lost(batch)
    require_exact(workshop, batch)
    batch.clean_up()
    assert [node.outputs() for node in machines.nodes] == [[], []]


def test_a_sweep_before_the_cleanup_takes_the_files_at_nodes_too(machines: TwoMachines, workshop: Workshop) -> None:
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    batch.coalesce()
    batch.run(Phase.SHUFFLE_READ, machines)
    batch.commit()
    assert all(held_by(node, batch) for node in machines.nodes)
    swept(workshop.storage)
    assert [node.outputs() for node in machines.nodes] == [[], []]


def flip(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


@pytest.mark.parametrize("lie", [flip, Path.unlink])
def test_a_node_that_lies_costs_its_outputs_once(
    machines: TwoMachines, workshop: Workshop, lie: Callable[[Path], None]
) -> None:
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    node = machines.nodes[0]
    lost = held_by(node, batch)
    batch.coalesce()
    for file in node.outputs():
        if file.stat().st_size:
            lie(file)
    batch.run(Phase.SHUFFLE_READ, Elsewhere(machines))
    require_made_again(batch, lost)
    require_exact(workshop, batch)


def test_a_full_or_draining_machine_writes_to_the_store(machines: TwoMachines, workshop: Workshop) -> None:
    even, odd = machines.nodes
    (even.folder / ".draining").touch()
    odd_aside = odd.folder.rename(odd.folder.with_name("aside"))
    odd.folder.write_text("no folder can be made below a file")
    try:
        batch = workshop.open()
        batch.run(Phase.SHUFFLE_WRITE, machines)
    finally:
        (even.folder / ".draining").unlink()
        odd.folder.unlink()
        odd_aside.rename(odd.folder)
    assert not any(split_node_key(data_key(each))[0] != "" for each in records(batch))
    batch.coalesce()
    batch.run(Phase.SHUFFLE_READ, machines)
    require_exact(workshop, batch)


def test_a_file_that_comes_to_a_node_after_the_end_of_its_batch_is_taken_back_or_expires(
    machines: TwoMachines, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = machines.nodes[0]
    batch = workshop.open()

    def end_batch() -> None:
        batch.run(Phase.SHUFFLE_WRITE, machines)
        batch.coalesce()
        batch.run(Phase.SHUFFLE_READ, machines)
        require_exact(workshop, batch)
        batch.clean_up()
        assert node.outputs() == []

    monkeypatch.setenv(CONFIG_VARIABLE, str(node.config))
    zombie = batch.reference.for_tasks(batch.plan).open()
    inputs = MapInputs.of(zombie.folder, batch.files)
    paused = replace(inputs, folder=replace(inputs.folder, machine=Paused(end_batch)))
    with replace(zombie, folder=paused.folder).fenced():
        write_map_output(paused, 0)
    assert not list(batch.folder.glob("0.*"))
    assert node.outputs() == []
    # Of a task that is killed before it looks again. Cleanup will not come again either.
    killed = inputs.folder.place_for(0)
    assert killed is not None
    killed.put("1.0.late.data", b"rows")
    [late] = node.outputs()
    os.utime(late, (0, 0))
    node.kill()
    node.start()
    wait_until(lambda: not node.outputs(), what="the first look of the node", seconds=60)


class Paused(Machine):
    """A machine that pauses a map task before its first write, while others end the batch."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__(keeps_outputs=True)
        self._meanwhile = meanwhile

    def place_of(self, batch: str, *, generation: int) -> BatchPlace | None:
        self._meanwhile()
        return super().place_of(batch, generation=generation)


@pytest.mark.parametrize(("first", "then"), [("nodes", "store"), ("store", "nodes")])
def test_an_edit_of_transfer_counts_in_the_middle_of_a_batch(
    machines: TwoMachines, workshop: Workshop, first: str, then: str
) -> None:
    batch = workshop.set(shuffle={**SHUFFLE, "transfer": first}).open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    batch.store.delete(["1.0"])
    later = workshop.set(shuffle={**SHUFFLE, "transfer": then}).open()
    later.run(Phase.SHUFFLE_WRITE, machines)
    assert [split_node_key(data_key(each))[0] != "" for each in records(later)].count(then == "nodes") == 1
    later.coalesce()
    later.run(Phase.SHUFFLE_READ, machines)
    require_exact(workshop, later)
    later.clean_up()
    left = [file for node in machines.nodes for file in node.outputs() if str(later.plan.checkpoint_id) in file.parts]
    assert left == []
