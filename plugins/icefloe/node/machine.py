"""The nodes as a task of this machine sees them: where it writes, and how it reads."""

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from icefloe.node.node_folder import node_key

if TYPE_CHECKING:
    from icefloe.node.node_client import NodeClients
    from icefloe.node.node_config import NodeConfig
    from icefloe.node.node_folder import NodeFolder, Piece, PieceFault

__all__ = ["BatchPlace", "Machine"]


class BatchPlace:
    """The place of a batch's map outputs on this machine."""

    def __init__(self, folder: "NodeFolder", address: str, batch: str, written: list[str]) -> None:
        self._folder = folder
        self._address = address
        self._batch = batch
        self._written = written

    def put(self, name: str, data: bytes | Path) -> str | None:
        """Writes a data file and returns its key; None if this machine cannot keep it."""
        path = f"{self._batch}/{name}"
        if not self._folder.put(path, data):
            return None
        self._written.append(path)
        return node_key(self._address, path)

    def delete(self, name: str) -> None:
        """Deletes a data file that no commit record names."""
        self._folder.delete(f"{self._batch}/{name}")


class Machine:
    """This machine among the nodes. It reads its configuration when first needed."""

    def __init__(self, environ: Mapping[str, str] | None = None, *, keeps_outputs: bool = False) -> None:
        self._environ = os.environ if environ is None else environ
        self._keeps_outputs = keeps_outputs
        self._written: list[str] = []

    @cached_property
    def config(self) -> "NodeConfig":
        """The configuration; `TerminalError` if it is missing or wrong."""
        from icefloe.node.node_config import configured_node

        return configured_node(self._environ)

    def check(self) -> str:
        """Reads the configuration and the certificates; returns a sentence about this machine."""
        self.config.pem()
        if self.config.address is None:
            return "this machine only reads from nodes"
        return f"map outputs of this machine are at {self.config.address}"

    def place_of(self, batch: str, *, generation: int) -> BatchPlace | None:
        """The place for the output of a map task; None: it goes to the store.

        An output that is made again goes to the store. So a node that loses outputs costs each of them one more task.
        """
        if not self._keeps_outputs or generation or self.config.address is None:
            return None
        folder = self.config.kept_folder
        return None if folder.is_draining else BatchPlace(folder, self.config.address, batch, self._written)

    def take_back(self) -> None:
        """Deletes all data files that were written here: their batch was over before."""
        for path in self._written:
            self.config.kept_folder.delete(path)

    def read(self, address: str, pieces: "Sequence[Piece]") -> "list[memoryview | PieceFault]":
        """The bytes of pieces at one node, in their order.

        Raises:
            NodeLostError: the node did not answer in time.
        """
        if address == self.config.address:
            # Its own folder, without the way through the server.
            return [self.config.kept_folder.read_whole(piece) for piece in pieces]
        return self._clients.read(address, pieces)

    def delete_batch(self, address: str, batch: str) -> None:
        """Deletes the files of a batch at a node. If the node does not answer, they stay until they expire."""
        if address == self.config.address:
            self.config.kept_folder.delete_batch(batch)
        else:
            self._clients.delete_batch(address, batch)

    @cached_property
    def _clients(self) -> "NodeClients":
        from icefloe.node.node_client import NodeClients
        from icefloe.patience import patience_seconds

        return NodeClients(self.config, patience=patience_seconds(self._environ))
