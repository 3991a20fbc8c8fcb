"""Serves the folder of a machine by Arrow Flight: one stream answers one request for many pieces."""

import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight

from icefloe.node.messages import (
    ANSWER,
    BUSY,
    BadRequestError,
    Piece,
    PieceFault,
    answer_batch,
    decode_pieces,
    large_batch,
)
from icefloe.node.node_config import NodeConfig, Pem
from icefloe.node.node_folder import NodeFolder, NoFreeFileError

logger = logging.getLogger(__name__)

DELETE: Final = "delete_batch"
_QUEUE_SECONDS: Final = 2.0
"""A request waits so long for its turn; then the reader is told that the node is alive, and asks again."""
_SMALL_BYTES: Final = 256 << 10
"""Pieces up to here travel together, so that many small ones cost one message."""
_BUSY_ANSWER: Final = answer_batch([BUSY], ["it answers others first"], [None])


class NodeServer(flight.FlightServerBase):  # type: ignore[misc]
    """Answers members, and nobody else: without a certificate of the authority no request arrives here.

    At most ``requests_at_once`` requests are answered at the same time, each with one open file and one chunk of it in
    memory. What a reader does not take waits on disk. As many requests again wait for their turn, and all others are
    asked to come again.

    Args:
        config: configuration of the machine.
        folder: folder to serve.
        pem: certificate, key and authority; None: as their files are now.
        at: host and port to listen on; None: as the configuration says.
    """

    def __init__(self, config: NodeConfig, folder: NodeFolder, *, pem: Pem | None = None, at: str = "") -> None:
        certificate, key, authority = config.pem() if pem is None else pem
        security: dict[str, object] = {}
        if not config.plain:
            security = {
                "tls_certificates": [(certificate, key)],
                "verify_client": True,
                "root_certificates": authority,
            }
        super().__init__(f"{config.scheme}://{at or f'{config.listen}:{config.port}'}", **security)
        self._folder = folder
        self._free = threading.BoundedSemaphore(config.requests_at_once)
        self._queue = threading.BoundedSemaphore(config.requests_at_once)

    def do_get(self, context: Any, ticket: Any) -> Any:  # noqa: ARG002 - Flight's own signature
        """The bytes of the pieces that a ticket names."""
        try:
            pieces = decode_pieces(ticket.ticket)
        except BadRequestError as error:
            raise flight.FlightServerError(error.sentence) from error
        if not self._has_turn():
            return flight.GeneratorStream(ANSWER, iter([_BUSY_ANSWER]))
        return flight.GeneratorStream(ANSWER, _Answer(self._folder, pieces, self._free))

    def _has_turn(self) -> bool:
        """Takes a place among the requests, waiting briefly for one; False: the reader must ask again."""
        # Each request that waits keeps a thread of the server, and members may send any number of them.
        if not self._queue.acquire(blocking=False):
            return False
        try:
            return self._free.acquire(timeout=_QUEUE_SECONDS)
        finally:
            self._queue.release()

    def do_action(self, context: Any, action: Any) -> Iterator[Any]:  # noqa: ARG002 - Flight's own signature
        """Deletes the files of a batch that is over."""
        if action.type != DELETE:
            raise NotImplementedError(action.type)
        self._folder.delete_batch(action.body.to_pybytes().decode(errors="replace"))
        return iter(())


class _Answer:
    """The batches of one answer. It frees its place among the requests when it ends or is dropped."""

    def __init__(self, folder: NodeFolder, pieces: Sequence[Piece], free: threading.BoundedSemaphore) -> None:
        self._batches = _batches(folder, pieces)
        self._free: threading.BoundedSemaphore | None = free

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            return next(self._batches)
        except NoFreeFileError as error:
            # Others have its files, as they may have its places: its map outputs are well.
            self._end()
            self._batches = iter(())
            logger.warning("a reader is asked to come again: %s", error.sentence)
            return _BUSY_ANSWER
        except BaseException:
            self._end()
            raise

    def __del__(self) -> None:
        self._end()

    def _end(self) -> None:
        free, self._free = self._free, None
        if free is not None:
            free.release()


def _batches(folder: NodeFolder, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
    waiting: list[tuple[int, str | None, bytes | None]] = []
    waiting_bytes = 0
    for place, piece in enumerate(pieces):
        found = folder.read(piece)
        if isinstance(found, PieceFault):
            waiting.append((place, found.reason, None))
            continue
        for chunk in found:
            if isinstance(chunk, PieceFault):
                waiting.append((place, chunk.reason, None))
            elif len(chunk) > _SMALL_BYTES:
                if waiting:
                    yield answer_batch(*zip(*waiting, strict=True))
                    waiting, waiting_bytes = [], 0
                yield large_batch(place, pa.py_buffer(chunk))
            else:
                waiting.append((place, None, chunk))
                waiting_bytes += len(chunk)
                if waiting_bytes > _SMALL_BYTES:
                    yield answer_batch(*zip(*waiting, strict=True))
                    waiting, waiting_bytes = [], 0
    if waiting:
        yield answer_batch(*zip(*waiting, strict=True))
