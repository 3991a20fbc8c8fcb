"""Batches whose map outputs stay on two machines, each with a network, a Spark worker and a node of its own."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any, Final

import pytest

from icefloe.api import read_changes
from icefloe.node.node_config import CONFIG_VARIABLE
from icefloe.patience import PATIENCE_VARIABLE
from servers.conftest import or_skip
from support.nodes.machines import NodeMachine, certificates, member_file
from support.nodes.networks import NetworkedCluster, Networks
from support.pipelines.flights_on_s3 import Flights, counted
from support.servers.cluster_place import ClusterPlace, IcefloeRun, WorkerEnvironment, held, shuffle_folders
from support.servers.private_authority import PrivateAuthority
from support.servers.rest_catalog import RestCatalog
from support.servers.spark_cluster import SparkWorker
from support.servers.versitygw import Versitygw

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(2400)]

FILES: Final = 12
PATIENCE_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 60.0
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

    def has_outputs(self, node: NodeMachine, batch: int) -> bool:
        """True if a commit record of the batch names the node."""
        return any(f"//{node.address}/" in record.read_text() for record in self.shuffle.glob(f"*/{batch}/[0-9]*.0"))

    def report(self, batch: int) -> Any:
        below = f"data/{self.flights.name}/icefloe/checkpoints/{STEM}/reports/{batch}.json"
        return json.loads((self.flights.store.folder / below).read_text())


@pytest.fixture(scope="module")
def machines(
    tmp_path_factory: pytest.TempPathFactory,
    rest_catalog: RestCatalog,
    versitygw: Versitygw,
    worker_environment: WorkerEnvironment,
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
        place = ClusterPlace(cluster=cluster, folder=folder, environment=worker_environment)
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


def test_a_batch_is_exact_whatever_becomes_of_a_machine_with_map_outputs(machines: Machines) -> None:
    with machines.run() as loading:
        assert loading.document()["route"] == "insert_only"
    strikes = (nothing, kill_a_machine_in_phase_one, kill_a_node_in_phase_two, pause_a_node_in_phase_two)
    for batch, strike in enumerate(strikes, 1):
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
    both_have_outputs(machines, run, batch)
    assert not list(machines.shuffle.glob(f"*/{batch}/*.data"))
    return []


def kill_a_machine_in_phase_one(machines: Machines, run: IcefloeRun, batch: int, stack: ExitStack) -> list[NodeMachine]:
    """Worker, executors and node of a machine that has map outputs; both are back after the batch."""
    node, worker = machines.nodes[0], machines.workers[0]
    # A commit record makes an output of the machine count. A worker that is held before its first one never writes it.
    run.when(lambda: machines.has_outputs(node, batch))
    with held(worker):
        assert any(node.folder.glob(f"*/{batch}/*.data"))
        node.kill()
        assert worker.kill() > 0
    stack.callback(node.start)
    stack.callback(machines.place.cluster.start, worker)
    return [node]


def kill_a_node_in_phase_two(machines: Machines, run: IcefloeRun, batch: int, stack: ExitStack) -> list[NodeMachine]:
    """The node alone, in the middle of a request; it is back after the batch."""
    node = paused_in_a_request(machines, run, batch)
    node.kill()
    stack.callback(node.start)
    return [node]


def pause_a_node_in_phase_two(machines: Machines, run: IcefloeRun, batch: int, stack: ExitStack) -> list[NodeMachine]:
    """For a minute, which is longer than readers wait, and in the middle of a request."""
    node = paused_in_a_request(machines, run, batch)
    back = Timer(PAUSE_SECONDS, node.resume)
    stack.callback(back.join)
    back.start()
    return [node]


def paused_in_a_request(machines: Machines, run: IcefloeRun, batch: int) -> NodeMachine:
    """A paused node from which a task on the other machine wants blocks.

    Nobody knows on which machine the first range is read. So both nodes are paused until one of them is asked.
    """
    both_have_outputs(machines, run, batch)
    # No node is asked before: coalesce reads only what is in the storage.
    run.when(lambda: any(machines.shuffle.glob(f"*/{batch}/extents/*")))
    for node in machines.nodes:
        assert not node.is_asked()
        node.pause()
    node = run.when(lambda: next((each for each in machines.nodes if each.is_asked()), None))
    for other in machines.nodes:
        if other is not node:
            other.resume()
    return node


def both_have_outputs(machines: Machines, run: IcefloeRun, batch: int) -> None:
    """Waits until each machine has a map output that counts."""
    # A worker that starts late would find no task left.
    first = run.when(lambda: next((each for each in machines.nodes if machines.has_outputs(each, batch)), None))
    number = machines.nodes.index(first)
    with held(machines.workers[number]):
        run.when(lambda: machines.has_outputs(machines.nodes[1 - number], batch))
