"""A proxy with TLS before a server: it lets a request pass only if its headers are right."""

import http.client
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TypeAlias

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from support.servers.serving import Answering, serving

__all__ = ["Guard", "guarded_proxy", "signed_by"]

Guard: TypeAlias = Callable[[str, str, Mapping[str, str], bytes], bool]
"""True if a request may pass: method, path with its query, headers in lower case, and body."""


@contextmanager
def guarded_proxy(port: int, guard: Guard, tls: ssl.SSLContext) -> Iterator[str]:
    """The URL of a proxy before a server on this machine; requests that the guard refuses get a 401."""

    class Proxied(Answering, BaseHTTPRequestHandler):
        def _pass_on(self) -> None:
            body = self.body()
            headers = {name.lower(): value for name, value in self.headers.items()}
            if not guard(self.command, self.path, headers, body):
                self.answer(401, b"Unauthorized", Content_Type="text/plain")
                return
            server = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            kept = {name: headers[name] for name in ("content-type",) if name in headers}
            server.request(self.command, self.path, body, kept)
            answer = server.getresponse()
            kind = answer.getheader("content-type") or "application/json"
            self.answer(answer.status, answer.read(), Content_Type=kind)
            server.close()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815 - the names of http.server

    with serving(Proxied, tls=tls) as url:
        yield url


def signed_by(access_key: str, secret_key: str, region: str, service: str) -> Guard:
    """Passes requests with the signature (SigV4) that botocore computes of the same request."""

    def is_signed(method: str, path: str, headers: Mapping[str, str], body: bytes) -> bool:
        _, _, fields = headers.get("authorization", "").partition(" ")
        given = dict(field.strip().split("=", 1) for field in fields.split(",") if "=" in field)
        if "SignedHeaders" not in given:
            return False
        names = given["SignedHeaders"].split(";")
        request = AWSRequest(method, f"https://{headers['host']}{path}", {name: headers[name] for name in names}, body)
        request.context["timestamp"] = headers["x-amz-date"]
        signer = SigV4Auth(Credentials(access_key, secret_key), service, region)
        signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
        return given["Signature"] == signature and f"/{region}/{service}/" in given["Credential"]

    return is_signed
