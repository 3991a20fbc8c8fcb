"""Stores that `validate` and the first run refuse, in each place of a pipeline."""

from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from icefloe.storage import clients
from support.catalogs import sql_properties
from support.pipelines.workspace import Workspace, icefloe
from support.servers.careless_store import careless_store

PLACES: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    "storage": lambda url: {"storage": url},
    "checkpoint": lambda url: {"checkpoint": url},
    "sink": lambda url: {"sink": {"type": "files", "path": url}},
}
CARELESS: Final = "ignores create-if-absent, which keeps two runs apart"
STORES: Final[dict[str, tuple[Callable[[], Any], str, list[str]]]] = {
    "overwrites": (lambda: careless_store(200), "true", [CARELESS, "a second create of one key succeeded"]),
    "looks before it writes": (lambda: careless_store(412, window_seconds=0.3), "true", [CARELESS]),
    "has no conditions": (
        lambda: careless_store(501), "true",
        ["does not implement this request (status 501); use S3, GCS, Azure, local disk or"],
    ),
    "has no TLS": (
        lambda: nullcontext(("http://127.0.0.1:1", {})), "false",
        ["the endpoint http://127.0.0.1:1 of s3://lake is not encrypted", "set allow_http to true"],
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    backoff = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2}
    monkeypatch.setattr(clients, "_RETRIES", {"max_retries": 2, "backoff": backoff})
    for name, value in {"ACCESS_KEY_ID": "any", "SECRET_ACCESS_KEY": "any", "REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace.create(tmp_path)
    made.append(1, 2)
    return made


@pytest.mark.parametrize("command", ["validate", "run"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("store", STORES)
def test_a_store_that_would_not_keep_two_runs_apart_is_refused_before_anything_is_written(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, place: str, command: str, store: str
) -> None:
    serve, allow_http, sentences = STORES[store]
    with serve() as (endpoint, objects):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_ALLOW_HTTP", allow_http)
        done = icefloe(command, workspace.pipeline(**PLACES[place]("s3://lake/place")))
        assert done.code == 65, done
        said = done.out if command == "validate" else done.sentence
        assert "s3://lake" in said
        assert [sentence for sentence in sentences if sentence not in said] == []
        assert objects == {}


def test_validate_reports_each_place_that_is_not_encrypted_by_permission(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with careless_store(412) as (endpoint, objects):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        catalog = {"name": "lab", **sql_properties(workspace.folder), "s3.endpoint": "http://127.0.0.1:2/path"}
        sink = {"type": "files", "path": "s3://lake/changes"}
        keys: dict[str, Any] = {"storage": "s3://lake/storage", "checkpoint": "s3://lake/kept"}
        done = icefloe("validate", workspace.pipeline(**keys, sink=sink, catalog=catalog))
        assert (done.code, objects) == (0, {})
    lines = [line for line in done.out.splitlines() if "is not encrypted: others on the network can read" in line]
    assert [line.split()[1] for line in lines] == ["storage", "storage", "sink", "catalog"]
    assert [endpoint in line for line in lines] == [True, True, True, False]
    assert "http://127.0.0.1:2 is not encrypted" in lines[3]
