"""A REST catalog of one table, which hands out what it is told to with the table, and a token to everybody."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from support.fakes.answering_server import answering_server

__all__ = ["rest_server"]


@contextmanager
def rest_server(
    metadata: Mapping[str, Any],
    metadata_location: str,
    *,
    config: Mapping[str, str] | None = None,
    storage_credentials: Sequence[Mapping[str, Any]] = (),
    overrides: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Serves ``db.events`` until left; gives the URL."""
    table = {
        "metadata-location": metadata_location,
        "metadata": metadata,
        "config": config or {},
        "storage-credentials": storage_credentials,
    }

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        path = request.path.partition("?")[0]
        known: dict[str, Any] = {
            "/v1/config": {"defaults": {}, "overrides": overrides or {}},
            "/v1/namespaces/db/tables/events": table,
            "/token": {"access_token": "issued-for-the-catalog", "expires_in": 3600},
        }
        status = 200 if path in known else 404
        body = known.get(path, {"error": {"message": path, "type": "NoSuchTableException", "code": 404}})
        return status, {"Content-Type": "application/json"}, json.dumps(body).encode()

    with answering_server(answer) as (url, _):
        yield url
