"""Batches whose map outputs stay on two machines, of which nodes are killed, silent or started again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from icefloe.errors import TransientError
from icefloe.flow import Phase
from icefloe.node import node_client
from icefloe.node.node_config import load_node_config
from icefloe.node.node_folder import BUSY, NodeFolder, Piece, PieceFault
from icefloe.node.node_server import NodeServer
from support.nodes.elsewhere import Elsewhere, Struck
from support.nodes.held_outputs import SHUFFLE, held_by, nodes_lost, require_exact, require_made_again
from support.nodes.machines import SHORT, TwoMachines
from support.pipelines.workshop import Workshop

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


def test_a_node_that_is_started_again_in_time_costs_nothing(machines: TwoMachines, workshop: Workshop) -> None:
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    batch.coalesce()
    machines.nodes[0].kill()
    machines.nodes[0].start()
    batch.run(Phase.SHUFFLE_READ, Elsewhere(machines))
    require_made_again(batch, set())
    require_exact(workshop, batch)


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


class Busy(NodeServer):
    """Asks all readers to come again."""

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:  # noqa: ARG002 - Flight's own signature
        return iter([BUSY])


class Exhausted(NodeFolder):
    """A folder of a node that has no file left to open."""

    def read(self, piece: Piece) -> Iterator[bytes | PieceFault]:  # noqa: ARG002 - as its base
        raise TransientError("a map output of this machine cannot be opened")


class Asked(Elsewhere):
    """Waits for a busy node no longer than for one that is away."""

    def map(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        found = super().map(Hurried(function), numbers)
        assert self.phases < 9, "it is asked again and again"
        return found


class Hurried:
    """A function, in the process that calls it."""

    def __init__(self, function: Callable[[int], Any]) -> None:
        self._function = function

    def __call__(self, number: int) -> Any:
        with patch.object(node_client, "_BUSY_TIMES", 1):
            return self._function(number)


@contextmanager
def in_its_place(machines: TwoMachines, *, busy: bool) -> Iterator[NodeServer]:
    """A node in place of that of the first machine that is busy, or has no file left to open."""
    machines.nodes[0].kill()
    config = load_node_config(machines.nodes[0].config)
    assert config.folder is not None
    with (Busy if busy else NodeServer)(config) as server:
        server._folder = Exhausted(config.folder)
        yield server


@pytest.mark.parametrize(
    ("busy", "target", "phases"),
    [
        (True, 1, ["ranges", "map tasks", "ranges"]),
        (False, 1 << 40, ["the range", "the range", "map tasks", "the range"]),
    ],
    ids=["busy", "without a file"],
)
def test_a_node_that_answers_only_others_is_lost_for_its_second_task(
    machines: TwoMachines, workshop: Workshop, busy: bool, target: int, phases: list[str]
) -> None:
    batch = workshop.set(shuffle={**SHUFFLE, "target_size_bytes": target}).open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    lost = held_by(machines.nodes[0], batch)
    assert lost
    batch.coalesce()
    with in_its_place(machines, busy=busy):
        reading = Asked(machines, patience=SHORT)
        batch.run(Phase.SHUFFLE_READ, reading)
    assert reading.phases == len(phases)
    require_made_again(batch, lost)
    [node] = nodes_lost(batch)
    assert node.map_outputs == len(lost)
    assert node.reason.startswith("it asked to come again for ")
    require_exact(workshop, batch)
