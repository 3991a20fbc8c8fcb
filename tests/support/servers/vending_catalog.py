"""A REST catalog that hands out credentials with each table, and can end them: real accounts of the real store."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from support.servers.rest_catalog import RestCatalog
from support.servers.serving import serving
from support.servers.versitygw import Versitygw

__all__ = ["Vending", "vending_catalog"]

_DELEGATION = "X-Iceberg-Access-Delegation"


@dataclass(kw_only=True)
class Vending:
    """The credentials that were handed out.

    Attributes:
        uri: of the catalog.
        live: secrets by access key.
        ended: those that the store does not know any more.
        useless: how many of the next accounts end as soon as they are handed out.
    """

    store: Versitygw
    uri: str = ""
    live: dict[str, str] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    useless: int = 0

    def hand_out(self) -> dict[str, str]:
        """The properties of a new account."""
        key, secret = self.store.add_account()
        self.live[key] = secret
        if self.useless:
            self.useless -= 1
            self.end()
        return {"s3.access-key-id": key, "s3.secret-access-key": secret}

    def end(self) -> None:
        """Ends all that was handed out so far."""
        while self.live:
            key, secret = self.live.popitem()
            self.store.remove_account(key)
            self.ended[key] = secret


@contextmanager
def vending_catalog(catalog: RestCatalog, store: Versitygw) -> Iterator[Vending]:
    """Stands before a catalog and adds credentials to the tables that it gives, where the client asks for them.

    It gives a token to whoever posts anything.
    """
    vending = Vending(store=store)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body = answer_of(catalog.uri + self.path)
            asked = self.headers.get(_DELEGATION) == "vended-credentials"
            if asked and status == 200 and self.path.rpartition("/")[0].endswith("/tables"):
                table = json.loads(body)
                body = json.dumps(table | {"config": table.get("config", {}) | vending.hand_out()}).encode()
            self.answer(status, body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(200, json.dumps({"access_token": "a-token", "expires_in": 3600}).encode())

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with serving(Handler) as url:
        vending.uri = url
        yield vending


def answer_of(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
