"""Spark's workers keep map outputs on their machine, and a node serves them."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from icefloe.engines.spark.engine import SparkEngine
from icefloe.flow import Phase
from icefloe.node.node_config import CONFIG_VARIABLE
from icefloe.node.node_folder import split_node_key
from icefloe.patience import PATIENCE_VARIABLE
from support.nodes.held_outputs import SHUFFLE, records
from support.nodes.machines import NodeMachine, certificates, member_file
from support.pipelines.workshop import Workshop
from support.servers.private_authority import PrivateAuthority

pytestmark = pytest.mark.spark


class OfMachine:
    """Spark's workers as tasks of one machine, by its configuration."""

    def __init__(self, engine: SparkEngine, config: Path) -> None:
        self._engine, self._config = engine, str(config)

    def map(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        config = self._config

        def run(number: int) -> Any:
            os.environ["ICEFLOE_NODE_CONFIG"] = config
            os.environ["ICEFLOE_PATIENCE_SECONDS"] = "20"
            return function(number)

        return self._engine.map(run, numbers)


@pytest.fixture
def authority(tmp_path: Path) -> PrivateAuthority:
    return PrivateAuthority.create(tmp_path / "authority")


@pytest.fixture
def machine(tmp_path: Path, authority: PrivateAuthority) -> Iterator[NodeMachine]:
    machine = NodeMachine.create(tmp_path / "machine", authority)
    machine.start()
    yield machine
    machine.server.stop()


def test_spark_workers_write_to_a_node_and_others_read_from_it(
    engine: SparkEngine,
    machine: NodeMachine,
    authority: PrivateAuthority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = member_file(tmp_path / "reader.yaml", **certificates(authority))
    monkeypatch.setenv(CONFIG_VARIABLE, str(reader))
    monkeypatch.setenv(PATIENCE_VARIABLE, "20")
    workshop = Workshop.create(tmp_path / "workshop")
    for start in (0, 50, 100):
        workshop.append(range(start, start + 50))
    workshop.deliver()
    workshop.update(range(40, 60), value=2.0)
    workshop.delete([3])
    batch = workshop.set(shuffle=SHUFFLE).open()
    batch.run(Phase.SHUFFLE_WRITE, OfMachine(engine, machine.config))
    assert all(split_node_key(each.data.key)[0] for each in records(batch) if each.data)
    assert machine.outputs()
    batch.coalesce()
    batch.run(Phase.SHUFFLE_READ, OfMachine(engine, reader))
    assert [each.generation for each in records(batch)] == [0] * batch.plan.num_map_tasks
    batch.commit()
    workshop.require_exact(batch.plan, workshop.changes(1))
    batch.clean_up()
    assert machine.outputs() == []
