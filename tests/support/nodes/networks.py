"""Networks of their own for machines of a test: namespaces of the kernel behind one bridge. Only root may make them."""

import ctypes
import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Final, Self

from demo.servers.server_process import ServerProcess
from icefloe.node.node_config import CONFIG_VARIABLE
from icefloe.patience import PATIENCE_VARIABLE
from support.missing import missing
from support.nodes.machines import NodeMachine
from support.servers.spark_cluster import SparkCluster, SparkWorker

__all__ = ["Network", "NetworkedCluster", "Networks"]

_CLONE_NEWNET: Final = 0x40000000


class Network:
    """The network of one machine, with a loopback of its own.

    Args:
        name: of the namespace.
        host: address by which others reach the machine.
    """

    def __init__(self, name: str, host: str) -> None:
        self.name, self.host = name, host

    @property
    def enter(self) -> tuple[str, ...]:
        """Beginning of a command that runs there."""
        return (str(shutil.which("ip")), "netns", "exec", self.name)

    def forward(self, port: int, stack: ExitStack) -> None:
        """Lets programs there reach 127.0.0.1 of this network at a port, at the same place in theirs."""
        server = stack.enter_context(self._listening(port))
        Thread(target=_accept, args=(server, port), daemon=True).start()

    def _listening(self, port: int) -> socket.socket:
        """A socket that listens there. It stays there when this thread comes back."""
        with Path("/run/netns", self.name).open() as there, Path("/proc/thread-self/ns/net").open() as here:
            _go(there.fileno())
            try:
                return socket.create_server(("127.0.0.1", port))
            finally:
                _go(here.fileno())


class Networks:
    """Two networks and this one, which reach each other; a context manager.

    Attributes:
        host: address of this machine in all of them.
        all: the two.
    """

    def __init__(self) -> None:
        # Others may run the same test on this machine.
        self._name, prefix = f"ice{os.getpid()}", f"10.213.{os.getpid() % 250}"
        self.host = f"{prefix}.1"
        self.all = [Network(f"{self._name}n{number}", f"{prefix}.{number + 2}") for number in range(2)]

    def __enter__(self) -> Self:
        if os.geteuid() != 0 or shutil.which("ip") is None:
            missing("only root can make networks, by `ip`", "run the tests as root, with the package iproute2")
        try:
            self._make()
        except subprocess.CalledProcessError as fault:
            self.__exit__()
            missing("this machine makes no network namespaces", fault.stderr.decode().strip())
        return self

    def __exit__(self, *_: object) -> None:
        for network in self.all:
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "del", network.name)
        with suppress(subprocess.CalledProcessError):
            _ip("link", "del", self._name)

    def _make(self) -> None:
        _ip("link", "add", self._name, "type", "bridge")
        _ip("addr", "add", f"{self.host}/24", "dev", self._name)
        _ip("link", "set", self._name, "up")
        for number, network in enumerate(self.all):
            outer = f"{self._name}v{number}"
            _ip("netns", "add", network.name)
            _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", network.name)
            _ip("link", "set", outer, "master", self._name, "up")
            _ip("-n", network.name, "addr", "add", f"{network.host}/24", "dev", "eth0")
            for inner in ("lo", "eth0"):
                _ip("-n", network.name, "link", "set", inner, "up")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _go(namespace: int) -> None:
    """Takes this thread to another network."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _accept(server: socket.socket, port: int) -> None:
    with suppress(OSError):  # closed
        while True:
            theirs, _ = server.accept()
            ours = socket.create_connection(("127.0.0.1", port))
            for source, target in ((theirs, ours), (ours, theirs)):
                Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


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
