"""Batches whose map outputs stay on two machines, each with a network, a Spark worker and a node of its own."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from icefloe import read_changes
from icefloe.node.node_config import CONFIG_VARIABLE
from icefloe.patience import PATIENCE_VARIABLE
from servers.conftest import or_skip
from support.nodes.machines import NodeMachine, certificates, member_file
from support.nodes.networked_cluster import NetworkedCluster
from support.nodes.networks import Networks
from support.pipelines.flights_on_s3 import Flights, counted
from support.servers.cluster_place import ClusterPlace, held, shuffle_folders
from support.servers.icefloe_run import IcefloeRun
from support.servers.private_authority import PrivateAuthority
from support.servers.rest_catalog import RestCatalog
from support.servers.spark_cluster import SparkWorker
from support.servers.versitygw import Versitygw

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1200)]

FILES: Final = 12
PATIENCE_SECONDS: Final = 10.0
STEM: Final = "nodes"


@dataclass(kw_only=True)
class Machines:
    """Two machines and a pipeline whose tasks run on them."""

    nodes: list[NodeMachine]
    place: ClusterPlace
    flights: Flights
    pipeline: Path
    driver: dict[str, str]

    @property
    def workers(self) -> list[SparkWorker]:
        return self.place.cluster.workers

    @property
    def shuffle(self) -> Path:
        return shuffle_folders(self.flights, STEM)

    def run(self) -> IcefloeRun:
        return self.place.run(self.flights, self.pipeline, **self.driver)

    def report(self, batch: int) -> Any:
        below = f"data/{self.flights.name}/icefloe/checkpoints/{STEM}/reports/{batch}.json"
        return json.loads((self.flights.store.folder / below).read_text())


@pytest.fixture(scope="module")
def machines(
    tmp_path_factory: pytest.TempPathFactory, rest_catalog: RestCatalog, versitygw: Versitygw
) -> Iterator[Machines]:
    folder = tmp_path_factory.mktemp("networks")
    authority = PrivateAuthority.create(folder / "authority")
    with ExitStack() as stack:
        networks = stack.enter_context(Networks())
        nodes = [
            NodeMachine.create(folder / each.name, authority, host=each.host, enter=each.enter) for each in networks.all
        ]
        for network, node in zip(networks.all, nodes, strict=True):
            network.forward(int(versitygw.endpoint.rpartition(":")[2]), stack)
            node.start()
            stack.callback(node.server.stop)
        spark = folder / "spark"
        cluster = stack.enter_context(
            or_skip(NetworkedCluster(folder=spark, host=networks.host, machines=nodes, patience=PATIENCE_SECONDS))
        )
        place = ClusterPlace(cluster=cluster, folder=folder)
        flights = Flights.in_small_files("nodeflights", rest_catalog, versitygw, files=FILES)
        shuffle = {"map_task_bytes": 1, "partitions": 2, "target_size_bytes": 1, "transfer": "nodes"}
        driver = {
            CONFIG_VARIABLE: str(member_file(folder / "driver.yaml", **certificates(authority, networks.host))),
            PATIENCE_VARIABLE: str(PATIENCE_SECONDS),
            "SPARK_LOCAL_IP": networks.host,
        }
        yield Machines(
            nodes=nodes,
            place=place,
            flights=flights,
            pipeline=place.pipeline(flights, STEM, shuffle=shuffle),
            driver=driver,
        )


def test_a_batch_is_exact_though_a_machine_with_map_outputs_dies(machines: Machines) -> None:
    with machines.run() as loading:
        assert loading.document()["route"] == "insert_only"
    for batch, strike in enumerate((nothing, kill_a_machine_in_phase_one), 1):
        after = machines.flights.load().metadata.current_snapshot_id
        machines.flights.rewrite(files=FILES, turn=batch)
        with ExitStack() as stack:
            with machines.run() as run:
                lost = strike(machines, run, batch, stack)
                assert run.document()["route"] == "shuffle"
            report = machines.report(batch)
            found = {node["address"] for phase in report["phases"] for node in phase.get("nodes_lost", ())}
            assert found == {node.address for node in lost}, strike.__name__
            assert sum(each.startswith("map outputs of node ") for each in report["warnings"]) == len(lost)
            loaded = machines.flights.load()
            changes = read_changes(loaded, after_snapshot_id=after, identifier_columns=["flight_id"]).read_all()
            assert machines.flights.delivered(batch) == counted(changes)


def nothing(machines: Machines, run: IcefloeRun, batch: int, _: ExitStack) -> list[NodeMachine]:
    """Both machines have map outputs, and the storage has none."""
    run.when(lambda: all(node.outputs() for node in machines.nodes))
    assert not list(machines.shuffle.glob(f"*/{batch}/*.data"))
    return []


def kill_a_machine_in_phase_one(machines: Machines, run: IcefloeRun, batch: int, stack: ExitStack) -> list[NodeMachine]:
    """Worker, executors and node of a machine that has map outputs; both are back after the batch."""
    node, worker = machines.nodes[0], machines.workers[0]
    # A commit record makes an output of the machine count. A worker that is held before its first one never writes it.
    run.when(lambda: any(_is_at(node, path) for path in machines.shuffle.glob(f"*/{batch}/[0-9]*.0")))
    with held(worker):
        assert any(node.folder.glob(f"*/{batch}/*.data"))
        node.kill()
        assert worker.kill() > 0
    stack.callback(node.start)
    stack.callback(machines.place.cluster.start, worker)
    return [node]


def _is_at(node: NodeMachine, record: Path) -> bool:
    return f"//{node.address}/" in record.read_text()
