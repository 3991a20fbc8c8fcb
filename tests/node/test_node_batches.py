"""Batches whose map outputs stay on two machines, while their nodes are well, away, silent or lie."""

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from icefloe.batch.commit.report import BatchReport
from icefloe.batch.context.references import TaskReference
from icefloe.batch.lost_nodes import LostNode
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.phase_record import load_phases
from icefloe.errors import TerminalError
from icefloe.flow import Phase, Route
from icefloe.node import node_client
from icefloe.node.machine import BatchPlace, Machine
from icefloe.node.node_config import CONFIG_VARIABLE
from icefloe.node.node_key import is_node_key, split_node_key
from icefloe.patience import PATIENCE_VARIABLE
from icefloe.shuffle.map_output_record import MapOutputRecord
from support.nodes.elsewhere import Elsewhere, Struck
from support.nodes.machines import SHORT, NodeMachine, TwoMachines
from support.pipelines.workshop import OpenBatch, Workshop
from support.servers.daemons import wait_until
from support.servers.private_authority import PrivateAuthority

pytestmark = pytest.mark.slow
SHUFFLE = {"map_task_bytes": 1, "partitions": 4, "target_size_bytes": 1}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoMachines]:
    place = tmp_path_factory.mktemp("machines")
    found = TwoMachines(place, PrivateAuthority.create(place / "authority")).start()
    yield found
    found.stop()


@pytest.fixture
def machines(started: TwoMachines, monkeypatch: pytest.MonkeyPatch) -> TwoMachines:
    """Both nodes, up again after what an earlier test did to them; this process only reads from them."""
    for node in started.nodes:
        if node.server.exit_code is not None:
            node.start()
        node.resume()
    node_client._lost_at.clear()
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
    return workshop.set(shuffle={**SHUFFLE, "transfer": "nodes"})


def records(batch: OpenBatch) -> list[MapOutputRecord]:
    return batch.batch_folder.map_outputs.records(range(batch.plan.num_map_tasks))


def data_key(record: MapOutputRecord) -> str:
    assert record.data is not None
    return record.data.key


def held_by(node: NodeMachine, batch: OpenBatch) -> set[int]:
    """The map tasks whose outputs a node has."""
    return {each.map_id for each in records(batch) if split_node_key(data_key(each))[0].endswith(f":{node.port}")}


def require_exact(workshop: Workshop, batch: OpenBatch) -> BatchReport:
    report = batch.commit()
    workshop.require_exact(batch.plan, workshop.changes(batch.plan.batch_number))
    return report


def require_made_again(batch: OpenBatch, expected: set[int]) -> None:
    """Exactly these outputs were made again, and are in the store now. Each has rows, so somebody fetches it."""
    found = records(batch)
    assert {each.map_id for each in found if each.generation} == expected
    assert {each.map_id for each in found if not is_node_key(data_key(each))} == expected


def test_map_outputs_stay_on_the_machines_and_give_the_same_parts(machines: TwoMachines, workshop: Workshop) -> None:
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    assert all(is_node_key(data_key(each)) for each in records(batch))
    assert all(held_by(node, batch) for node in machines.nodes)
    assert not list(batch.folder.glob("*.data"))
    batch.coalesce()
    batch.run(Phase.SHUFFLE_READ, machines)
    require_made_again(batch, set())
    assert not nodes_lost(batch)
    require_exact(workshop, batch)
    batch.clean_up()
    assert [node.outputs() for node in machines.nodes] == [[], []]


def test_a_node_that_is_killed_before_coalesce_costs_its_outputs_once(
    machines: TwoMachines, workshop: Workshop
) -> None:
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    lost = held_by(machines.nodes[0], batch)
    assert lost
    machines.nodes[0].kill()
    batch.coalesce()
    batch.run(Phase.SHUFFLE_READ, Elsewhere(machines, patience=SHORT))
    require_made_again(batch, lost)
    [node] = nodes_lost(batch)
    address = f"127.0.0.1:{machines.nodes[0].port}"
    assert (node.address, node.map_outputs) == (address, len(lost))
    assert node.reason.startswith("it does not answer: ")
    assert node.reason.count("Connection refused") == 1
    [warning] = require_exact(workshop, batch).warnings
    assert warning == f"map outputs of node {address} were made again in the storage, {len(lost)} in all: {node.reason}"


def nodes_lost(batch: OpenBatch) -> list[LostNode]:
    """The nodes that the phases of an open batch name."""
    phases = load_phases(batch.store, Route.SHUFFLE, delivers=False)
    return [node for phase in phases for node in phase.nodes_lost]


def test_a_node_that_is_silent_for_longer_than_patience_is_given_up(machines: TwoMachines, workshop: Workshop) -> None:
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    lost = held_by(machines.nodes[0], batch)
    assert lost
    batch.coalesce()
    machines.nodes[0].pause()
    batch.run(Phase.SHUFFLE_READ, Elsewhere(machines, patience=SHORT))
    machines.nodes[0].resume()
    require_made_again(batch, lost)
    require_exact(workshop, batch)


def test_a_node_that_is_started_again_in_time_costs_nothing(machines: TwoMachines, workshop: Workshop) -> None:
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    batch.coalesce()
    machines.nodes[0].kill()
    machines.nodes[0].start()
    batch.run(Phase.SHUFFLE_READ, Elsewhere(machines))
    require_made_again(batch, set())
    require_exact(workshop, batch)


def flip(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def swap(file: Path) -> None:
    """Another file of the same size."""
    file.write_bytes(os.urandom(file.stat().st_size))


@pytest.mark.parametrize("lie", [flip, cut, swap, Path.unlink])
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
    assert not any(is_node_key(data_key(each)) for each in records(batch))
    batch.coalesce()
    batch.run(Phase.SHUFFLE_READ, machines)
    require_exact(workshop, batch)


def test_a_task_without_a_configuration_says_what_to_set(
    machines: TwoMachines, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CONFIG_VARIABLE)
    with pytest.raises(TerminalError, match=f"{CONFIG_VARIABLE} is not set here"):
        workshop.open().run(Phase.SHUFFLE_WRITE)


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
    zombie, inputs = TaskReference.of(batch.reference, batch.files, batch.plan).open()
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


def test_both_nodes_may_be_lost_at_once(machines: TwoMachines, workshop: Workshop) -> None:
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    for node in machines.nodes:
        node.kill()
    reading = Elsewhere(machines, patience=SHORT)
    batch.coalesce()
    # The machine that runs the tasks would find its own outputs without its node.
    for file in machines.nodes[1].outputs():
        file.unlink()
    batch.run(Phase.SHUFFLE_READ, reading)
    require_made_again(batch, set(range(batch.plan.num_map_tasks)))
    assert reading.phases == 3, "one round finds both: all ranges, all map tasks, all ranges again"
    assert {node.address for node in nodes_lost(batch)} == {f"127.0.0.1:{node.port}" for node in machines.nodes}
    assert len(require_exact(workshop, batch).warnings) == 2


def test_a_node_that_is_killed_while_ranges_are_read_costs_its_outputs_once(
    machines: TwoMachines, workshop: Workshop
) -> None:
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    lost = held_by(machines.nodes[0], batch)
    assert lost
    batch.coalesce()
    batch.run(Phase.SHUFFLE_READ, Struck(machines, after=1, strike=machines.nodes[0].kill))
    assert {path.name for path in (batch.folder / "results").iterdir()} > {"00000.json"}
    require_made_again(batch, lost)
    require_exact(workshop, batch)


def test_a_node_that_was_silent_for_less_than_patience_costs_nothing(machines: TwoMachines, workshop: Workshop) -> None:
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    batch.coalesce()
    node = machines.nodes[0]
    node.pause()
    back = threading.Timer(0.5, node.resume)
    back.start()
    batch.run(Phase.SHUFFLE_READ, Elsewhere(machines))
    back.join()
    require_made_again(batch, set())
    require_exact(workshop, batch)


@pytest.mark.parametrize(("first", "then"), [("nodes", "store"), ("store", "nodes")])
def test_an_edit_of_transfer_counts_in_the_middle_of_a_batch(
    machines: TwoMachines, workshop: Workshop, first: str, then: str
) -> None:
    batch = workshop.set(shuffle={**SHUFFLE, "transfer": first}).open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    batch.store.delete(["1.0"])
    later = workshop.set(shuffle={**SHUFFLE, "transfer": then}).open()
    later.run(Phase.SHUFFLE_WRITE, machines)
    assert [is_node_key(data_key(each)) for each in records(later)].count(then == "nodes") == 1
    later.coalesce()
    later.run(Phase.SHUFFLE_READ, machines)
    require_exact(workshop, later)


def test_identities_that_are_compared_in_coalesce_are_read_from_nodes(
    machines: TwoMachines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop = Workshop.create(tmp_path / "compared").set(columns=["value"], identifier_columns=["id"])
    for start in (0, 50):
        workshop.append(range(start, start + 50))
    workshop.deliver()
    workshop.update([1, 60], value=2.0)
    batch = workshop.set(shuffle={**SHUFFLE, "transfer": "nodes"}).open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    lost = held_by(machines.nodes[1], batch)
    assert lost
    # This process reads the outputs of the other machine without its node too.
    monkeypatch.setenv(CONFIG_VARIABLE, str(machines.nodes[0].config))
    monkeypatch.setenv(PATIENCE_VARIABLE, str(SHORT))
    machines.nodes[1].kill()
    batch.coalesce()
    require_made_again(batch, lost)
    assert [node.map_outputs for node in nodes_lost(batch)] == [len(lost)]
    batch.run(Phase.SHUFFLE_READ, machines)
    assert sum(batch.commit().counts.values()) == 4
