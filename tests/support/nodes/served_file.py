"""A file that a node serves, and readers of its pieces."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from demo.servers.free_port import free_port
from icefloe.node.node_client import NodeClients
from icefloe.node.node_config import NodeConfig
from icefloe.node.node_folder import Piece, PieceFault
from icefloe.node.node_server import NodeServer

__all__ = ["DATA", "FILE", "content", "piece", "read", "served", "waited"]

Server = TypeVar("Server", bound=NodeServer)

FILE = "5f0c/7/0.0.a1.data"
DATA = os.urandom(9 << 20)


@contextmanager
def served(config: NodeConfig, kind: type[Server], **keys: Any) -> Iterator[tuple[Server, str]]:
    """Another node with the folder of a configuration, and its address."""
    address = f"127.0.0.1:{free_port()}"
    with kind(replace(config, address=address, **keys)) as server:
        yield server, address


def read(node: str, reader: NodeConfig, *pieces: Piece, patience: float = 20.0) -> list[memoryview | PieceFault]:
    return NodeClients(reader, patience=patience).read(node, pieces)


def content(found: memoryview | PieceFault) -> bytes:
    assert not isinstance(found, PieceFault), found
    return bytes(found)


def piece(start: int, stop: int, path: str = FILE, size_bytes: int = len(DATA)) -> Piece:
    return Piece(path, size_bytes, start, stop)


def waited(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits for a state."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.05)):
        if condition():
            return
        pause.wait(0.05)
    raise AssertionError("it did not come about")
