"""Machines that keep map outputs: for each a folder, a process of `icefloe node`, and a process that runs its tasks."""

import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Self
from unittest.mock import patch

import yaml
from cryptography.x509 import IPAddress

from demo.servers.free_port import free_port
from demo.servers.server_process import ServerProcess
from icefloe.node.node_config import CONFIG_VARIABLE
from icefloe.patience import PATIENCE_VARIABLE, silence_of
from support.servers.private_authority import PrivateAuthority

__all__ = ["SHORT", "NodeMachine", "TwoMachines", "certificates", "member_file", "on_machine"]

ROOT = Path(__file__).parents[3]
_HOST: Final = "127.0.0.1"
LONG: Final = 60.0
SHORT: Final = 2.0
"""Seconds for which readers wait for a node that a test has ended or stopped. Readers of other nodes wait `LONG`."""


def certificates(authority: PrivateAuthority) -> dict[str, str]:
    """The keys of a member's configuration that name its certificates; a new certificate each time."""
    own = str(authority.issue(IPAddress(ip_address(_HOST))))
    return {"certificate": own, "key": own, "authority": str(authority.bundle)}


def member_file(path: Path, **keys: Any) -> Path:
    """A configuration of a machine."""
    path.write_text(yaml.safe_dump({"version": 1, **keys}))
    return path


@contextmanager
def on_machine(config: Path) -> Iterator[None]:
    """Until the block ends, this process is one of the machine with a configuration."""
    with patch.dict(os.environ, {CONFIG_VARIABLE: str(config)}):
        yield


@dataclass(kw_only=True)
class NodeMachine:
    """One machine: its configuration, its folder, its node.

    Attributes:
        enter: beginning of the command of its node.
    """

    config: Path
    folder: Path
    port: int
    server: ServerProcess
    enter: tuple[str, ...] = ()

    @classmethod
    def create(cls, place: Path, authority: PrivateAuthority, *, enter: tuple[str, ...] = (), **keys: Any) -> Self:
        """A machine whose node does not run yet."""
        place.mkdir(parents=True)
        port, folder = free_port(), place / "outputs"
        config = member_file(
            place / "node.yaml",
            address=f"{_HOST}:{port}",
            folder=str(folder),
            listen=_HOST,
            **certificates(authority),
            **keys,
        )
        server = ServerProcess("node", place)
        return cls(config=config, folder=folder, port=port, server=server, enter=enter)

    @property
    def address(self) -> str:
        """Host and port, as commit records name them."""
        return f"{_HOST}:{self.port}"

    def start(self) -> None:
        environ = {**os.environ, "PYTHONPATH": str(ROOT / "plugins")}
        command = [*self.enter, sys.executable, "-m", "icefloe", "node", "--config", str(self.config)]
        self.server.start(command, environ=environ, is_ready=self._is_reached, seconds=60)

    def kill(self) -> None:
        self.server.kill()

    def pause(self) -> None:
        os.kill(self.server.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.server.pid, signal.SIGCONT)

    def outputs(self) -> list[Path]:
        """The node may remove a folder between two looks of pathlib."""
        while True:
            with suppress(FileNotFoundError):
                return sorted(self.folder.glob("*/*/*.data"))

    def _is_reached(self) -> bool:
        try:
            socket.create_connection((_HOST, self.port), timeout=1).close()
        except OSError:
            return False
        return True


class TwoMachines:
    """Two machines, and an engine that runs tasks with even numbers on one and those with odd numbers on the other.

    Args:
        place: their folders.
        authority: issues their certificates.
    """

    def __init__(self, place: Path, authority: PrivateAuthority) -> None:
        self.nodes = [NodeMachine.create(place / name, authority) for name in ("even", "odd")]
        self.reader = member_file(place / "reader.yaml", **certificates(authority))
        context = multiprocessing.get_context("spawn")
        self._pools = [
            ProcessPoolExecutor(1, mp_context=context, initializer=_become, initargs=(str(node.config),))
            for node in self.nodes
        ]

    def map(self, function: Callable[[int], Any], numbers: Sequence[int], *, patience: float = LONG) -> list[Any]:
        """Runs each task on its machine."""
        futures = [self._pools[number % 2].submit(_run, function, number, patience) for number in numbers]
        return [future.result() for future in futures]

    def start(self) -> Self:
        for node in self.nodes:
            node.start()
        return self

    def stop(self) -> None:
        for pool in self._pools:
            pool.shutdown()
        for node in self.nodes:
            node.server.stop()


def _become(config: str) -> None:
    """Makes this process one of a machine."""
    os.environ[CONFIG_VARIABLE] = config


def _run(function: Callable[[int], Any], number: int, patience: float) -> Any:
    """Runs a task in a process that remembers no node of another test as lost."""
    os.environ[PATIENCE_VARIABLE] = str(patience)
    silence_of.cache_clear()
    return function(number)
