"""A server on this machine that answers every request in one way."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from io import BytesIO

from support.servers.serving import serving

__all__ = ["Answer", "answering_server"]

Answer = Callable[[BaseHTTPRequestHandler], tuple[int, dict[str, str], bytes]]
"""Gives status, headers and body of the answer to a request, whose own body is ``request.rfile``."""


@contextmanager
def answering_server(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """Serves until left; gives the URL and the growing list of methods that were asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            asked.append(self.command)
            # Read to its end whatever the answer does, or the connection could not be used again.
            connection, sent = self.rfile, self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.rfile = BytesIO(sent)
            status, headers, body = answer(self)
            self.rfile = connection
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = handle_any  # noqa: N815 - the base class calls them so

        def log_message(self, *args: object) -> None:
            pass

    with serving(Handler) as url:
        yield url, asked
