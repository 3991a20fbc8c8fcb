"""Two machines of one process that run tasks in turn. Each reads the other's map outputs through its node."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from demo.servers.free_port import free_port
from icefloe.flow import Phase
from icefloe.node.node_config import load_node_config
from icefloe.node.node_folder import READ
from icefloe.node.node_server import NodeServer
from support.nodes.machines import certificates, member_file, on_machine
from support.servers.private_authority import PrivateAuthority

__all__ = ["MachinesInTurn"]


class MachinesInTurn:
    """An engine that runs map tasks with even numbers on one machine, and those with odd numbers on the other.

    Ranges are read the other way round, so that also a single range asks for the output of a single map task.

    Args:
        place: folder of the machines.

    Attributes:
        requests: the number of requests that the nodes have answered.
        loses: True if the first machine loses its map outputs when all map tasks are done.
    """

    def __init__(self, place: Path) -> None:
        place.mkdir(parents=True)
        authority = PrivateAuthority.create(place / "authority")
        self.requests, self.loses = 0, False
        self._reader = member_file(place / "reader.yaml", **certificates(authority))
        self._folders = [place / name / "outputs" for name in ("even", "odd")]
        self._configs = [
            member_file(
                place / f"{folder.parent.name}.yaml",
                address=f"127.0.0.1:{free_port()}",
                folder=str(folder),
                listen="127.0.0.1",
                **certificates(authority),
            )
            for folder in self._folders
        ]
        self._servers = [_Counting(config, self) for config in self._configs]

    def reading(self) -> AbstractContextManager[None]:
        """Outside tasks, this process is a machine that only reads."""
        return on_machine(self._reader)

    def writing(self) -> AbstractContextManager[None]:
        """Outside tasks, and in tasks that other engines run, this process is the first machine."""
        return on_machine(self._configs[0])

    def map(self, function: Callable[[int], Any], numbers: Sequence[int]) -> list[Any]:
        """Runs each task on its machine."""
        done, phase = [], getattr(function, "phase", None)
        for number in numbers:
            machine = (number + (phase is Phase.SHUFFLE_READ)) % 2
            with on_machine(self._configs[machine]):
                done.append(function(number))
        if self.loses and phase is Phase.SHUFFLE_WRITE:
            shutil.rmtree(self._folders[0], ignore_errors=True)
        return done

    def close(self) -> None:
        """Ends the nodes."""
        for server in self._servers:
            server.shutdown()


class _Counting(NodeServer):
    """A node that counts requests."""

    def __init__(self, config: Path, machines: MachinesInTurn) -> None:
        super().__init__(load_node_config(config))
        self._machines = machines

    def do_action(self, context: Any, action: Any) -> Any:
        self._machines.requests += action.type == READ
        return super().do_action(context, action)
