"""A server that sends back whatever it was asked, as debugging proxies and careless services do."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from urllib.parse import unquote

from support.servers.serving import serving

__all__ = ["ISSUED", "echo_server"]

ISSUED = "1ssu3d-by-the-server/Xy+42="
"""The token that ``/grant`` hands out."""


@contextmanager
def echo_server() -> Iterator[str]:
    """Serves until left; the first part of the path says how it answers: ``401``, ``500-text``, ``200-garbage``."""
    with serving(_Handler) as url:
        yield url


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode("utf-8", errors="replace")
        authorization = self.headers.get("Authorization", "")
        decoded = (
            base64.b64decode(authorization.partition(" ")[2] + "===").decode("latin-1")
            if "Basic" in authorization
            else ""
        )
        echo = f"{self.command} {self.path} {unquote(self.path)} {dict(self.headers)} {sent} {unquote(sent)} {decoded}"
        if "X-Amz-Target" in self.headers:
            self.send(400, json.dumps({"__type": "x#ValidationException", "message": echo}))
            return
        mode = self.path.split("/")[1].partition("?")[0]
        status, kind = (mode.partition("-")[0], mode.partition("-")[2]) if mode[:3].isdigit() else ("404", "")
        if mode == "grant":
            status, kind = ("200", "token") if "/oauth/" in self.path else ("500", "text")
        body = {
            "text": echo,
            "html": f"<html><body>{echo}</body></html>",
            "garbage": json.dumps({"echo": echo}),
            "token": json.dumps({"access_token": ISSUED, "token_type": "bearer", "expires_in": 3600}),
            "xml": f"<Error><Code>No</Code><Message>{echo}</Message></Error>",
        }.get(kind) or json.dumps({"error": {"message": echo, "type": "NotAuthorizedException", "code": int(status)}})
        self.send(int(status), body, "application/xml" if kind == "xml" else "application/json")

    def send(self, status: int, body: str, kind: str = "application/json") -> None:
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Type", kind)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer  # noqa: N815 - the base class calls them so

    def log_message(self, *args: object) -> None:
        pass
