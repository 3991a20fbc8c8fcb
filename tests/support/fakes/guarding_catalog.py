"""A REST catalog over the SQL catalog of a folder, which forbids some commits, as a catalog with few rights does."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableRequest

from support.catalogs import open_sql_catalog
from support.fakes.answering_server import answering_server

__all__ = ["Forbids", "guarding_catalog", "no_commits", "no_refs", "no_tags"]

Forbids = Callable[[dict[str, Any]], bool]
"""True if one update of a commit is forbidden."""
TABLE = "/v1/namespaces/db/tables/events"
ENDPOINTS = (
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
)


def no_refs(update: dict[str, Any]) -> bool:
    """Forbids to set branches and tags."""
    return update["action"] == "set-snapshot-ref"


def no_tags(update: dict[str, Any]) -> bool:
    """Forbids to set tags; branches may be set."""
    return no_refs(update) and update["type"] == "tag"


def no_commits(_: dict[str, Any]) -> bool:
    """Forbids everything."""
    return True


@contextmanager
def guarding_catalog(folder: Path, forbids: Forbids, *, can_commit: bool = True) -> Iterator[str]:
    """Serves ``db.events`` of the catalog ``lab`` in a folder until left; gives the URL.

    As real servers do, it looks at the rights first, and then at the requirements of a commit.

    Args:
        folder: of the SQL catalog.
        forbids: tells which updates are answered by 403.
        can_commit: false if the server says that it takes no commits at all.
    """

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        status, body = reply(request)
        return status, {"Content-Type": "application/json"}, json.dumps(body).encode()

    def reply(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, Any]]:
        path = request.path.partition("?")[0]
        if path == "/v1/config":
            return 200, {"defaults": {}, "overrides": {}, "endpoints": ENDPOINTS[: 1 + can_commit]}
        if path != TABLE:
            return error(404, "NoSuchTableException", path)
        table = open_sql_catalog("lab", folder).load_table("db.events")
        if request.command == "POST":
            commit = CommitTableRequest.model_validate_json(request.rfile.read())
            if any(forbids(update.model_dump(by_alias=True)) for update in commit.updates):
                return error(403, "ForbiddenException", "principal reader may not do that")
            try:
                table.catalog.commit_table(table, commit.requirements, commit.updates)
            except CommitFailedException as failed:
                return error(409, "CommitFailedException", str(failed))
            table = table.refresh()
        metadata = json.loads(table.metadata.model_dump_json())
        return 200, {"metadata-location": table.metadata_location, "metadata": metadata}

    def error(code: int, kind: str, message: str) -> tuple[int, dict[str, Any]]:
        return code, {"error": {"message": message, "type": kind, "code": code}}

    with answering_server(answer) as (url, _):
        yield url
