"""A divided reduce partition of map outputs at nodes, one of which changes them."""

from pathlib import Path

import pytest

from icefloe.flow import Phase
from support.nodes.elsewhere import Elsewhere
from support.nodes.held_outputs import held_by, records, require_exact, require_made_again
from support.nodes.machines import TwoMachines
from support.pipelines.workshop import Workshop
from support.tables.skewed import HOT, PARTITIONS, skewed_ids, skewed_rows

pytestmark = pytest.mark.slow


def test_parts_of_a_hot_partition_are_read_from_nodes_and_made_again(machines: TwoMachines, tmp_path: Path) -> None:
    workshop = Workshop.create(tmp_path).set(initial_load="from_now")
    ids = skewed_ids(4_500)
    for first in range(3):
        workshop.table.append(skewed_rows(ids[first::3], 1.0))
    workshop.deliver()
    workshop.replace(skewed_rows(ids, 2.0))
    sizes = {"partitions": PARTITIONS, "map_task_bytes": 1, "target_size_bytes": 16_384}
    batch = workshop.set(shuffle={**sizes, "transfer": "nodes"}).open()
    batch.run(Phase.SHUFFLE_WRITE, machines)
    assert {each.divided for each in records(batch)} == {(HOT,)}
    lost = held_by(machines.nodes[0], batch)
    assert sum(each.parts is not None for each in batch.coalesce().plan.ranges) >= 4
    for file in machines.nodes[0].outputs():
        data = file.read_bytes()
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    batch.run(Phase.SHUFFLE_READ, Elsewhere(machines))
    require_made_again(batch, lost)
    require_exact(workshop, batch)
