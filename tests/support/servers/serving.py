"""Servers in threads of this process, one thread for each request."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

__all__ = ["Answering", "serving"]


class Answering(BaseHTTPRequestHandler):
    """A handler whose connections go on after an answer, and which prints nothing."""

    protocol_version = "HTTP/1.1"

    def body(self) -> bytes:
        """The body of the request, read to its end, or the connection could not be used again."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """The whole answer; underscores in the names of headers are dashes."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Tests read no log of it."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], *, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serves on this machine until left; gives the URL."""
    # An answer is written in two parts, and the second would wait until the client says that it has the first: 40 ms.
    handler.disable_nagle_algorithm = True
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
