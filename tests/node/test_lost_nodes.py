"""Batches whose map outputs stay on two machines, of which nodes are killed, silent or started again."""

import threading
from pathlib import Path

import pytest

from icefloe.flow import Phase
from icefloe.node.node_config import CONFIG_VARIABLE
from icefloe.patience import PATIENCE_VARIABLE
from support.nodes.elsewhere import Elsewhere, Struck
from support.nodes.held_outputs import SHUFFLE, held_by, nodes_lost, require_exact, require_made_again
from support.nodes.machines import SHORT, TwoMachines
from support.pipelines.workshop import OpenBatch, Workshop

pytestmark = pytest.mark.slow


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


def compared(folder: Path, machines: TwoMachines) -> OpenBatch:
    """A batch up to coalesce whose rows are compared whatever their identity."""
    workshop = Workshop.create(folder / "compared").set(columns=["value"], identifier_columns=["id"])
    for start in (0, 50):
        workshop.append(range(start, start + 50))
    workshop.deliver()
    workshop.update([1, 60], value=2.0)
    batch = workshop.set(shuffle=SHUFFLE).open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    return batch


def test_hash_rows_are_read_from_nodes(machines: TwoMachines, tmp_path: Path) -> None:
    batch = compared(tmp_path, machines)
    lost = held_by(machines.nodes[0], batch)
    assert lost
    batch.coalesce()
    machines.nodes[0].kill()
    reading = Elsewhere(machines, patience=SHORT)
    batch.run(Phase.SHUFFLE_READ, reading)
    require_made_again(batch, lost)
    assert [node.map_outputs for node in nodes_lost(batch)] == [len(lost)]
    assert reading.phases == 4, "hash ranges, map tasks, hash ranges again, then ranges, which miss nothing"
    assert sum(batch.commit().counts.values()) == 4


def test_identities_that_are_compared_in_coalesce_are_read_from_nodes(
    machines: TwoMachines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So they are in a batch of a release without hash rows."""
    monkeypatch.setattr("icefloe.batch.plan.make_plan.hash_partition_count", lambda _: 0)
    batch = compared(tmp_path, machines)
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
