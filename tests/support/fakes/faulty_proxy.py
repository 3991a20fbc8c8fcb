"""A proxy before a store that spoils some answers: resets, cuts, loses, delays and replaces them.

    with faulty_proxy(port, cut_after(100)) as proxy:
        ...                       # proxy.port speaks for the store

It works on bytes and knows no HTTP beyond the first line of a request: what the store says in one go is an answer.
With a certificate it speaks TLS to its clients, and to the store as the store speaks.
"""

import selectors
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from support.fakes.unanswering import serving

__all__ = ["Answer", "FaultyProxy", "every", "faulty_proxy", "is_create", "is_read", "is_write"]

_AT_ONCE: Final = 1 << 16
_PIECES: Final = 50
_PAUSE_SECONDS: Final = 0.01


class Answer:
    """The connection to a client, by which a fault answers in the store's place."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client

    def send(self, data: bytes) -> None:
        """Passes bytes on."""
        self._client.sendall(data)

    def reset(self) -> None:
        """Ends the connection with a reset instead of an end."""
        self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._client.close()

    def hold(self) -> None:
        """Says nothing more, and waits until the client ends the connection."""
        with suppress(OSError):
            while self._client.recv(_AT_ONCE):
                pass

    def end(self) -> None:
        """Ends the connection as after a whole answer."""
        self._client.close()


Fault = Callable[[Answer, bytes], None]
"""Called with the first bytes of the store's answer, in place of passing them on."""


def reset(answer: Answer, data: bytes) -> None:
    """The answer is lost: the connection is reset before a byte of it came."""
    answer.reset()


def reset_in_the_middle(answer: Answer, data: bytes) -> None:
    """Half of the answer comes, then a reset."""
    answer.send(data[: len(data) // 2])
    answer.reset()


def cut(answer: Answer, data: bytes) -> None:
    """Half of the answer comes, with the length of the whole in its head, then an orderly end."""
    answer.send(data[: max(1, len(data) - 3)])
    answer.end()


def stall(answer: Answer, data: bytes) -> None:
    """Nothing comes, and the connection stays open until the client leaves."""
    answer.hold()


def stall_in_the_middle(answer: Answer, data: bytes) -> None:
    """Half of the answer comes, then nothing until the client leaves."""
    answer.send(data[: len(data) // 2])
    answer.hold()


def drip(answer: Answer, data: bytes) -> None:
    """The answer comes in many small pieces."""
    for first in range(0, len(data), max(1, len(data) // _PIECES)):
        answer.send(data[first : first + max(1, len(data) // _PIECES)])
        time.sleep(_PAUSE_SECONDS)
    answer.end()


def answers(status: int, code: str) -> Fault:
    """Makes the fault that the client gets this status in place of the answer; the store did what it was asked."""
    body = f"<Error><Code>{code}</Code></Error>".encode()
    head = (
        f"HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )

    def fault(answer: Answer, data: bytes) -> None:
        answer.send(head.encode() + body)
        answer.end()

    return fault


FAULTS: Final[dict[str, Fault]] = {
    "reset": reset,
    "reset in the middle": reset_in_the_middle,
    "cut": cut,
    "stall": stall,
    "stall in the middle": stall_in_the_middle,
    "drip": drip,
    "500": answers(500, "InternalError"),
    "503": answers(503, "SlowDown"),
    "409": answers(409, "ConditionalRequestConflict"),
    "412": answers(412, "PreconditionFailed"),
}


def is_read(request: bytes) -> bool:
    """A request that asks for a value or a listing."""
    return request.startswith((b"GET ", b"HEAD "))


def is_write(request: bytes) -> bool:
    """A request that changes something."""
    return not is_read(request)


def is_create(request: bytes) -> bool:
    """A write of a value that is not to be there yet."""
    return is_write(request) and b"\r\nif-none-match:" in request.lower()


def every(nth: int, first: int = 1) -> Callable[[int], bool]:
    """Which of the requests are struck: the first given, and each n-th after it."""
    return lambda number: number >= first and (number - first) % nth == 0


@dataclass
class FaultyProxy:
    """The proxy of a test.

    Attributes:
        port: on 127.0.0.1.
        tls: the side of a server that speaks TLS; None for plain connections.
        passes: called with the first bytes of each request before the store gets it; False: it never does.
        struck: the first lines of the requests whose answers were spoiled.
        connections: how many clients have made.
    """

    target: int
    fault: Fault
    is_struck: Callable[[int], bool]
    concerns: Callable[[bytes], bool]
    tls: ssl.SSLContext | None = None
    passes: Callable[[bytes], bool] = bool
    port: int = 0
    struck: list[str] = field(default_factory=list)
    connections: int = 0
    _seen: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, client: socket.socket) -> None:
        """Serves one connection to its end."""
        with self._lock:
            self.connections += 1
        store_address = ("127.0.0.1", self.target)
        with suppress(OSError), self._secured(client) as asking, socket.create_connection(store_address) as store:
            self._relay(asking, store)

    def _secured(self, client: socket.socket) -> socket.socket:
        # A client that does not like the certificate ends the connection here.
        return client if self.tls is None else self.tls.wrap_socket(client, server_side=True)

    def _relay(self, client: socket.socket, store: socket.socket) -> None:
        waiting = selectors.DefaultSelector()
        waiting.register(client, selectors.EVENT_READ)
        waiting.register(store, selectors.EVENT_READ)
        request = b""
        is_answered = True
        while True:
            for key, _ in waiting.select():
                side = client if key.fileobj is client else store
                data = _received(side)
                if not data:
                    return
                if side is client:
                    if is_answered and not data.startswith(b"\r\n"):
                        request, is_answered = data, False
                        if not self.passes(request):
                            return
                    store.sendall(data)
                elif not is_answered and not data.startswith(b"HTTP/1.1 100"):
                    is_answered = True
                    if self._is_due(request):
                        self.fault(Answer(client), data)
                        return
                    client.sendall(data)
                else:
                    client.sendall(data)

    def _is_due(self, request: bytes) -> bool:
        if not self.concerns(request):
            return False
        with self._lock:
            self._seen += 1
            is_due = self.is_struck(self._seen)
            if is_due:
                self.struck.append(request.partition(b"\r\n")[0].decode(errors="replace"))
        return is_due


def _received(side: socket.socket) -> bytes:
    """All that has come: TLS may have decrypted more than was asked for, and no selector sees that."""
    data = side.recv(_AT_ONCE)
    while data and isinstance(side, ssl.SSLSocket) and side.pending():
        data += side.recv(_AT_ONCE)
    return data


@contextmanager
def faulty_proxy(
    target: int,
    fault: Fault,
    *,
    is_struck: Callable[[int], bool],
    concerns: Callable[[bytes], bool] = lambda _: True,
    tls: ssl.SSLContext | None = None,
) -> Iterator[FaultyProxy]:
    """A proxy before the server on a port of this machine."""
    proxy = FaultyProxy(target=target, fault=fault, is_struck=is_struck, concerns=concerns, tls=tls)
    with serving(lambda client, _: proxy.serve(client)) as proxy.port:
        yield proxy
