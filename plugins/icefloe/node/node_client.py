"""Asks nodes for pieces of map outputs, one request per node."""

import logging
import threading
import time
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
from pyarrow import ArrowException, flight

from icefloe.errors import TerminalError, one_line
from icefloe.node.node_config import NodeConfig
from icefloe.node.node_folder import (
    BUSY,
    DELETE,
    MOST_MESSAGE_BYTES,
    READ,
    NodeLostError,
    Piece,
    PieceFault,
    decode_rows,
    encode_pieces,
    whole_piece,
)
from icefloe.patience import brief_seconds, silence_of

logger = logging.getLogger(__name__)

_SLOWEST_BYTES_PER_SECOND: Final = 1 << 20
_BUSY_TIMES: Final = 10
_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 1.0
_OPTIONS: Final = (
    # A proxy of the environment is for the outside world, and readers and nodes are inside.
    ("grpc.enable_http_proxy", 0),
    # A node that is started again is found within a second, not after two minutes.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # By default a message may have any length, and gRPC unpacks one that is compressed before anybody looks at it.
    ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),
    ("grpc.per_message_decompression", 0),
)

_MOST_CHARACTERS: Final = 200
_LOST_SECONDS: Final = 600.0
"""A node that was given up is waited for only briefly for so long: tasks would wait for it one after another."""


class NodeClients:
    """The nodes that one task has asked, connected. Several threads may use it at once."""

    def __init__(self, config: NodeConfig, *, patience: float) -> None:
        self._config = config
        # Seconds for which a node may be silent or away. Each MiB of an answer adds a second.
        self._patience = patience
        self._clients: dict[str, object] = {}
        self._lock = threading.Lock()

    def read(self, address: str, pieces: Sequence[Piece]) -> list[memoryview | PieceFault]:
        """The bytes of the pieces, in their order; NodeLostError after the patience, or ten times it if busy."""
        action = flight.Action(READ, encode_pieces(pieces))
        expected_bytes = sum(piece.stop - piece.start for piece in pieces)
        silence = silence_of("node", address)
        patience = brief_seconds(self._patience) if silence.is_recent else self._patience
        seconds = patience + expected_bytes / _SLOWEST_BYTES_PER_SECOND
        began = time.monotonic()
        end, busy_until, pause = began + seconds, began + _BUSY_TIMES * seconds, _FIRST_PAUSE_SECONDS
        while True:
            options = flight.FlightCallOptions(timeout=max(end - time.monotonic(), 0.001))
            try:
                found = _pieces(self._client(address).do_action(action, options), pieces)
            except (ArrowException, OSError) as cause:  # some are ValueErrors too
                self._forget(address)
                # Each error of the network looks the same here, and a node that restarts looks like one that is gone.
                if time.monotonic() + pause >= end:
                    silence.begin(_LOST_SECONDS)
                    reason = f"it does not answer: {_said(cause)}"
                    raise NodeLostError(f"node {address}: {reason}", reason=reason, is_busy=False) from cause
                logger.info("node %s is asked again: %s", address, _said(cause))
            except ValueError as error:
                silence.end()
                return [PieceFault(str(error))] * len(pieces)
            except TerminalError:
                # Certificates may be renewed on this machine now, so that a file is gone for a moment.
                if time.monotonic() + pause >= began + brief_seconds(self._patience):
                    raise
            else:
                if found is not None:
                    silence.end()
                    return found
                # It is alive, so its map outputs are not given up as soon as those of a node that is away.
                end = time.monotonic() + seconds
                if end > busy_until:
                    silence.begin(_LOST_SECONDS)
                    reason = f"it asked to come again for {end - seconds - began:.0f} seconds"
                    raise NodeLostError(
                        f"node {address} answers others all the time: {reason}; raise requests_at_once in its "
                        "configuration, or its limit of open files, or let fewer tasks run at once",
                        reason=reason,
                        is_busy=True,
                    )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def delete_batch(self, address: str, batch: str) -> None:
        """Deletes the files of a batch at a node, once and briefly: what stays there expires."""
        options = flight.FlightCallOptions(timeout=brief_seconds(self._patience))
        try:
            next(self._client(address).do_action(flight.Action(DELETE, batch.encode()), options), None)
        except (ArrowException, OSError) as error:
            self._forget(address)
            logger.warning("node %s keeps the files of batch %s until they expire: %s", address, batch, _said(error))

    def _client(self, address: str) -> Any:
        with self._lock:
            client = self._clients.get(address)
            if client is None:
                certificate, key, authority = self._config.pem()
                self._clients[address] = client = flight.FlightClient(
                    f"{self._config.scheme}://{address}",
                    generic_options=list(_OPTIONS),
                    tls_root_certs=authority or None,
                    cert_chain=certificate or None,
                    private_key=key or None,
                )
            return client

    def _forget(self, address: str) -> None:
        """The next connection uses the certificates of that time."""
        with self._lock:
            self._clients.pop(address, None)


def _said(cause: BaseException) -> str:
    """Without its repetition for gRPC."""
    return _quoted(one_line(cause).partition(" gRPC client debug context:")[0].rpartition("last error: ")[2])


def _pieces(answer: Any, pieces: Sequence[Piece]) -> list[memoryview | PieceFault] | None:
    """None: the node is busy. Missing bytes are faults; `ValueError` for surplus ones and for another form."""
    # The room for all bytes is there before they come, so a node that lies takes no more, however it cuts them.
    starts = [0, *accumulate(max(0, piece.stop - piece.start) for piece in pieces)]
    room, ends = np.empty(starts[-1], np.uint8).data, starts[:-1]
    faults: dict[int, PieceFault] = {}
    for result in answer:
        message = memoryview(result.body).cast("B")
        if len(message) == len(BUSY):
            return None
        for place, is_fault, data in decode_rows(message):
            if place >= len(pieces):
                raise ValueError("its node answered in another form")
            if is_fault:
                faults[place] = PieceFault(f"its node says {_quoted(bytes(data).decode(errors='replace'))}")
                continue
            end = ends[place] + len(data)
            if end > starts[place + 1]:
                raise ValueError("its node answered more bytes than were asked for")
            room[ends[place] : end] = data
            ends[place] = end
    return [
        faults.get(place) or whole_piece(room[starts[place] : ends[place]], piece) for place, piece in enumerate(pieces)
    ]


def _quoted(text: str) -> str:
    """Cut and quoted: another machine's words, for a log and a terminal."""
    return repr(text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…")
