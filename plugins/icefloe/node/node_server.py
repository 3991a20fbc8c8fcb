"""``icefloe node``: serves a machine's folder by Arrow Flight, renews certificates, expires files."""

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from pyarrow import ArrowException, flight

from icefloe.errors import IcefloeError, TerminalError, TransientError, one_line
from icefloe.node.node_config import NodeConfig, Pem
from icefloe.node.node_counts import NodeCounts, status_served
from icefloe.node.node_folder import (
    BUSY,
    DELETE,
    READ,
    ROW_BYTES,
    NodeFolder,
    OpenBatches,
    Piece,
    PieceFault,
    decode_pieces,
    encode_rows,
    none_open,
)

__all__ = ["serve_node"]

logger = logging.getLogger(__name__)

_QUEUE_SECONDS: Final = 2.0
"""A request waits so long for its turn; then the reader is told that the node is alive, and asks again."""
_SMALL_BYTES: Final = 512 << 10
"""Pieces up to here travel together, so that many small ones cost one message."""
_STRANGER_SECONDS: Final = 20.0
"""The time for a handshake and the first request: gRPC's readers wait no longer for a handshake themselves."""
_OWN_FILES: Final = 32

_Peer: TypeAlias = tuple[str, int]


class NodeServer(flight.FlightServerBase):  # type: ignore[misc]
    """Answers members, and nobody else: without a certificate of the authority no request arrives here.

    At most ``requests_at_once`` are answered at once, each with one open file and one chunk in memory. As many again
    wait; all others are asked to come again. ``pem`` and ``at`` are the configuration's if missing.
    """

    def __init__(self, config: NodeConfig, *, pem: Pem | None = None, at: str = "") -> None:
        certificate, key, authority = config.pem() if pem is None else pem
        folder = config.kept_folder  # a configuration without one is refused before a port is open
        super().__init__(
            f"{config.scheme}://{at or f'{config.listen}:{config.port}'}",
            tls_certificates=[] if config.plain else [(certificate, key)],
            verify_client=not config.plain,
            root_certificates=authority or None,
        )
        self._folder = folder
        self._free = threading.BoundedSemaphore(config.requests_at_once)
        self._queue = threading.BoundedSemaphore(config.requests_at_once)
        self._kept_files = 2 * config.requests_at_once + _OWN_FILES
        self.members: set[_Peer] = set()  # open connections on which a request came
        self._strangers: dict[_Peer, float] = {}
        self.counts = NodeCounts()

    def end_strangers(self) -> None:
        """Ends connections on which no request came in time; the oldest at once if open files run out."""
        # A silent connection has shown no certificate. Flight takes any number of them, for two minutes each.
        limit, known, now = getrlimit(RLIMIT_NOFILE)[0], set(self.members), time.monotonic()
        files = _open_files(limit)
        # Not duplicated, for which there may be no file. If Flight closes one meanwhile and another connection gets
        # its number, that one may be ended: its reader asks again.
        found = {peer: file for file in files if (peer := _peer_of(file, self.port)) is not None}
        self.members -= known - found.keys()
        self._strangers = {each: self._strangers.get(each, now) for each in found if each not in self.members}
        too_many = len(files) - max(limit - self._kept_files, limit // 2)
        oldest = sorted(self._strangers, key=self._strangers.__getitem__)
        ended = oldest[: max(0, too_many, sum(now - at > _STRANGER_SECONDS for at in self._strangers.values()))]
        for peer in ended:
            _peer_of(found[peer], self.port, ends=True)
        if ended:
            logger.warning("ended %d connections on which nobody had asked for anything", len(ended))

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:
        """The bytes of the wanted pieces; or deletes the files of a batch that is over."""
        # As in "ipv4:127.0.0.1:4995" or "ipv6:%5Bfe80::1%25eth0%5D:4995".
        host, _, port = unquote(context.peer()).partition(":")[2].rpartition(":")
        self.members.add(_peer(host.strip("[]"), int(port)))
        body = action.body.to_pybytes()
        if action.type == DELETE:
            self._folder.delete_batch(body.decode(errors="replace"))
            self.counts.add("requests.deleted")
            return iter(())
        if action.type != READ:
            self.counts.add("requests.refused")
            raise NotImplementedError(action.type)
        try:
            return self._answer(decode_pieces(body))
        except ValueError as error:
            self.counts.add("requests.refused")
            raise flight.FlightServerError(str(error)) from error

    def _answer(self, pieces: Sequence[Piece]) -> Iterator[bytes]:
        """Keeps its place until it ends or is dropped."""
        if not self._has_turn():
            self.counts.add("requests.busy")
            yield BUSY
            return
        outcome = "unfinished"
        try:
            for message in _messages(self._folder, pieces, self.counts):
                yield message
                self.counts.add("bytes", len(message))
            outcome = "served"
        except TransientError as error:
            # Others have its files, as they may have its places: its map outputs are well.
            logger.warning("a reader is asked to come again: %s", error.sentence)
            outcome = "busy"
            yield BUSY
        finally:
            self._free.release()
            self.counts.add(f"requests.{outcome}")

    def _has_turn(self) -> bool:
        """Waits briefly; False: the reader must ask again."""
        # Each request that waits keeps a thread of the server, and members may send any number of them.
        if not self._queue.acquire(blocking=False):
            return False
        try:
            return self._free.acquire(timeout=_QUEUE_SECONDS)
        finally:
            self._queue.release()


def _messages(folder: NodeFolder, pieces: Sequence[Piece], counts: NodeCounts) -> Iterator[bytes]:
    waiting: list[tuple[int, bool, bytes]] = []
    waiting_bytes = 0
    for place, piece in enumerate(pieces):
        for part in folder.read(piece):
            data = part.reason.encode(errors="replace") if isinstance(part, PieceFault) else part
            counts.add("missing_pieces", data is not part)
            waiting.append((place, data is not part, data))
            waiting_bytes += ROW_BYTES + len(data)
            if waiting_bytes > _SMALL_BYTES:
                message, waiting, waiting_bytes = encode_rows(waiting), [], 0
                yield message
    if waiting:
        yield encode_rows(waiting)


def _open_files(limit: int) -> Sequence[int]:
    try:
        return [int(each.name) for each in Path("/dev/fd").iterdir()]
    except OSError:
        # No file is left to open for the list: each number is one.
        return range(limit)


def _peer(host: str, port: int) -> _Peer:
    """IPv4 addresses may come in IPv6 form."""
    return host.partition("%")[0].removeprefix("::ffff:"), port


def _peer_of(file: int, port: int, *, ends: bool = False) -> _Peer | None:
    """Of an open file that is a connection to the port; ends it if wanted."""
    try:
        connection = socket.socket(fileno=file)
    except OSError:
        return None
    try:
        if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.getsockname()[1] != port:
            return None
        if ends:
            connection.shutdown(socket.SHUT_RDWR)
        return _peer(*connection.getpeername()[:2])
    except OSError:
        return None  # It listens, or the other end is gone.
    finally:
        connection.detach()


_LOOK_SECONDS: Final = 1.0
_EXPIRE_SECONDS: Final = 3600.0
_SEND_SECONDS: Final = 10.0
_BIND_PAUSE_SECONDS: Final = 0.02
_MOST_SECONDS_WITHOUT_PORT: Final = 60.0
"""Readers take a node for lost after such a time, and its map outputs are made again."""


def serve_node(
    config: NodeConfig,
    stop: threading.Event,
    *,
    say: Callable[[str], None],
    open_batches: OpenBatches = none_open,
) -> None:
    """Serves until ``stop`` is set, and ends the answers that are under way.

    Args:
        open_batches: of batches whose files are old, those whose files are still needed; it may wait for a store.
    """
    pem = config.pem()
    server = _started(config, pem)
    counts = server.counts
    with status_served(config, counts):
        say(f"node {config.address} serves {config.folder}")
        _repeat(lambda: _expire(config, counts, open_batches), every=_EXPIRE_SECONDS, until=stop)
        _repeat(lambda: counts.send(config), every=_SEND_SECONDS, until=stop)
        _serve(server, config, pem, stop)


def _repeat(act: Callable[[], None], *, every: float, until: threading.Event) -> None:
    """Repeats what may wait for others, in a thread of its own."""

    def repeat() -> None:
        while True:
            try:
                act()
            except (IcefloeError, OSError, RuntimeError, MemoryError) as error:
                logger.warning("this node serves on, and tries again in %.0f seconds: %s", every, one_line(error))
            if until.wait(every):
                return

    threading.Thread(target=repeat, name="icefloe-node-upkeep", daemon=True).start()


def _expire(config: NodeConfig, counts: NodeCounts, open_batches: OpenBatches) -> None:
    deleted = config.kept_folder.expire(older_than_seconds=config.keep, open_batches=open_batches)
    if deleted:
        counts.add("expired_files", deleted)
        logger.warning("deleted %d files that no batch had deleted for %.0f seconds", deleted, config.keep)


def _serve(server: NodeServer, config: NodeConfig, pem: Pem, stop: threading.Event) -> None:
    while not stop.wait(_LOOK_SECONDS):
        try:
            server.end_strangers()
            server.counts.looked_at = time.monotonic()
            with suppress(TerminalError):  # a file is being replaced: the next look finds it
                found = config.pem()
                if found != pem and _is_usable(config, found):
                    server, pem = _replaced(server, config, found, stop), found
                    logger.info("node %s has new certificates", config.address)
        except (OSError, RuntimeError, MemoryError) as error:
            # This process has no file, no thread or no memory left now. It still serves, and looks again.
            logger.warning("node %s serves on without a look at its folder: %r", config.address, error)
    server.shutdown()


def _started(config: NodeConfig, pem: Pem, *, at: str = "") -> NodeServer:
    try:
        return NodeServer(config, pem=pem, at=at)
    except (ArrowException, OSError) as cause:
        raise TransientError(
            f"the node cannot serve on {config.listen} port {config.port}: {one_line(cause)}; another program has the "
            "port, or certificate and key do not belong together"
        ) from cause


def _is_usable(config: NodeConfig, pem: Pem) -> bool:
    """Half of a renewal is not usable."""
    try:
        _started(config, pem, at="127.0.0.1:0").shutdown()
    except TransientError as error:
        logger.warning("the new certificates are not used yet: %s", error.sentence)
        return False
    return True


def _replaced(server: NodeServer, config: NodeConfig, pem: Pem, stop: threading.Event) -> NodeServer:
    """The old one still ends its answers; later readers ask again."""
    threading.Thread(target=server.shutdown, name="icefloe-node-ends", daemon=True).start()
    since = time.monotonic()
    while not stop.wait(_BIND_PAUSE_SECONDS):
        try:
            started = _started(config, pem)
        except TransientError as error:
            seconds = time.monotonic() - since
            if seconds >= _MOST_SECONDS_WITHOUT_PORT:
                raise TransientError(
                    f"node {config.address} has served nobody for {seconds:.0f} seconds, because its port was not free "
                    f"again for its new certificates: end the program that has the port, and start the node again "
                    f"({error.sentence})"
                ) from error
        else:
            # Answers of the old server may still be under way.
            started.members |= server.members
            started.counts = server.counts
            return started
    return server
