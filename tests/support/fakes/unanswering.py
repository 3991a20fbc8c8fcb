"""Servers on this machine that a client could wait for without end."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["drip_headers", "garbage", "keep_silent", "serving"]

Behaviour = Callable[[socket.socket, threading.Event], None]
"""Serves one connection until the server is left."""


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[int]:
    """Serves until left; gives the port."""
    left = threading.Event()
    connections: list[socket.socket] = []
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)

    def serve(connection: socket.socket) -> None:
        with suppress(OSError):
            behaviour(connection, left)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                connections.append(connection)
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        left.set()
        for each in [listening, *connections]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def keep_silent(connection: socket.socket, left: threading.Event) -> None:
    """Accepts and reads, and never says a word."""
    while connection.recv(65536) and not left.is_set():
        pass


def drip_headers(connection: socket.socket, left: threading.Event) -> None:
    """Begins an answer, and goes on with it a byte at a time, faster than any timeout between two reads."""
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not left.wait(0.05):
        connection.sendall(b"a")


def garbage(connection: socket.socket, left: threading.Event) -> None:
    """Answers 200 and a page to whatever is asked, as a login page or a parked domain does."""
    body = b"<html><body>It works!</body></html>"
    while not left.is_set() and (asked := _request(connection)):
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        connection.sendall(head if asked.startswith(b"HEAD") else head + body)


def _request(connection: socket.socket) -> bytes:
    """A request, read whole."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return b""
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    length = next((int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length" in line), 0)
    ends = time.monotonic() + 10
    while len(rest) < length and time.monotonic() < ends:
        rest += connection.recv(65536)
    return head
