"""A server on this machine that answers every request in one way."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from io import BytesIO

from support.servers.serving import Answering, serving

__all__ = ["Answer", "answering_server"]

Answer = Callable[[BaseHTTPRequestHandler], tuple[int, dict[str, str], bytes]]
"""Gives status, headers and body of the answer to a request, whose own body is ``request.rfile``."""


@contextmanager
def answering_server(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """Serves until left; gives the URL and the growing list of methods that were asked."""
    asked: list[str] = []

    class Handler(Answering):
        def handle_any(self) -> None:
            asked.append(self.command)
            connection, self.rfile = self.rfile, BytesIO(self.body())
            status, headers, body = answer(self)
            self.rfile = connection
            self.answer(status, body, **headers)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = handle_any  # noqa: N815 - the base class calls them so

    with serving(Handler) as url:
        yield url, asked
