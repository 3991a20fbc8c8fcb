"""``icefloe node``: serves the folder of this machine until it is stopped, renews certificates, expires files."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from pyarrow import ArrowException

from icefloe.errors import TerminalError, TransientError, one_line
from icefloe.node.node_config import NodeConfig, Pem
from icefloe.node.node_folder import NodeFolder
from icefloe.node.node_server import NodeServer

__all__ = ["drain_node", "refill_node", "serve_node"]

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 1.0
_EXPIRE_SECONDS: Final = 600.0
_BIND_PAUSE_SECONDS: Final = 0.02
_QUIET_SECONDS: Final = 5.0
_MOST_SECONDS_WITHOUT_PORT: Final = 60.0
"""Readers take a node for lost after such a time, and its map outputs are made again."""


def serve_node(config: NodeConfig, stop: threading.Event, *, say: Callable[[str], None]) -> None:
    """Serves until ``stop`` is set, and ends the answers that are under way.

    Args:
        config: configuration of this machine.
        stop: ends the server.
        say: takes a sentence once the server answers.

    Raises:
        TerminalError: the configuration has no folder.
        TransientError: the port is taken, also if another program took it while certificates were replaced; or a
            certificate is wrong.
    """
    folder = _folder(config)
    pem = config.pem()
    server = _started(config, folder, pem)
    say(f"node {config.address} serves {config.folder}")
    expire_at = 0.0
    while not stop.wait(_LOOK_SECONDS):
        try:
            server.end_strangers()
            if time.monotonic() >= expire_at:
                expire_at = time.monotonic() + _EXPIRE_SECONDS
                deleted = folder.expire(older_than_seconds=config.keep)
                if deleted:
                    logger.warning("deleted %d files that no batch had deleted for %.0f seconds", deleted, config.keep)
            with suppress(TerminalError):  # a file is being replaced: the next look finds it
                found = config.pem()
                if found != pem and _is_usable(config, folder, found):
                    server, pem = _replaced(server, config, folder, found, stop), found
                    logger.info("node %s has new certificates", config.address)
        except (OSError, RuntimeError, MemoryError) as error:
            # This process has no file, no thread or no memory left now. It still serves, and looks again.
            logger.warning("node %s serves on without a look at its folder: %r", config.address, error)
    server.shutdown()


def drain_node(config: NodeConfig) -> int:
    """Lets tasks write nothing new to this machine, and returns the number of files that batches still need."""
    folder = _folder(config)
    folder.drain()
    return folder.totals()[0]


def refill_node(config: NodeConfig) -> None:
    """Lets tasks write to this machine again."""
    _folder(config).refill()


def _folder(config: NodeConfig) -> NodeFolder:
    if config.folder is None:
        raise TerminalError(
            "this configuration has neither folder nor address, so there is nothing to serve: write both, or start no "
            "node on this machine"
        )
    return NodeFolder(config.folder)


def _started(config: NodeConfig, folder: NodeFolder, pem: Pem, *, at: str = "") -> NodeServer:
    try:
        return NodeServer(config, folder, pem=pem, at=at)
    except (ArrowException, OSError) as cause:
        raise TransientError(
            f"the node cannot serve on {config.listen} port {config.port}: {one_line(cause)}; another program has the "
            "port, or certificate and key do not belong together"
        ) from cause


def _is_usable(config: NodeConfig, folder: NodeFolder, pem: Pem) -> bool:
    """True if a server starts with these certificates. Half of a renewal is not usable."""
    try:
        _started(config, folder, pem, at="127.0.0.1:0").shutdown()
    except TransientError as error:
        logger.warning("the new certificates are not used yet: %s", error.sentence)
        return False
    return True


def _replaced(
    server: NodeServer, config: NodeConfig, folder: NodeFolder, pem: Pem, stop: threading.Event
) -> NodeServer:
    """Another server on the same port. The old one still ends its answers; readers that come between ask again.

    Until another server has the port, or if it is to stop, it is the old one. The certificates are those that were
    found usable: the files may be replaced again meanwhile, or be gone for a moment.

    Raises:
        TransientError: the port is not free again in time. A node that ends is started again, and is missed meanwhile.
    """
    threading.Thread(target=server.shutdown, name="icefloe-node-ends", daemon=True).start()
    since, is_said = time.monotonic(), False
    while not stop.wait(_BIND_PAUSE_SECONDS):
        try:
            started = _started(config, folder, pem)
        except TransientError as error:
            seconds = time.monotonic() - since
            if seconds >= _MOST_SECONDS_WITHOUT_PORT:
                raise TransientError(
                    f"node {config.address} has served nobody for {seconds:.0f} seconds, because its port was not free "
                    f"again for its new certificates: end the program that has the port, and start the node again "
                    f"({error.sentence})"
                ) from error
            if seconds >= _QUIET_SECONDS and not is_said:
                is_said = True
                logger.warning("node %s serves nobody until its port is free again: %s", config.address, error.sentence)
        else:
            # Answers of the old server may still be under way.
            started.members |= server.members
            return started
    return server
