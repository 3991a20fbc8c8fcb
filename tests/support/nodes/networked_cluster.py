"""A Spark cluster whose workers are on machines with networks of their own, next to their nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

from demo.servers.server_process import ServerProcess
from icefloe.node.node_config import CONFIG_VARIABLE
from icefloe.patience import PATIENCE_VARIABLE
from support.nodes.machines import NodeMachine
from support.servers.spark_cluster import SparkCluster, SparkWorker

__all__ = ["NetworkedCluster"]


@dataclass(kw_only=True)
class NetworkedCluster(SparkCluster):
    """One worker on each machine.

    Attributes:
        machines: whose nodes serve what the workers write.
        patience: seconds for which tasks wait for a node.
    """

    machines: Sequence[NodeMachine]
    patience: float

    def new_worker(self, number: int) -> SparkWorker:
        """The worker of a machine, which does not run yet."""
        name, machine = f"spark_worker{number}", self.machines[number]
        environ = {
            CONFIG_VARIABLE: str(machine.config),
            PATIENCE_VARIABLE: str(self.patience),
            "SPARK_LOCAL_IP": machine.host,
        }
        return SparkWorker(
            name=name,
            process=ServerProcess(name, self.folder),
            host=machine.host,
            enter=machine.enter,
            environ=environ,
        )
