"""Stores that `validate` and the first run refuse, in each place of a pipeline."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from icefloe.storage import clients
from support.catalogs import sql_properties
from support.pipelines.workspace import Outcome, Workspace, icefloe
from support.servers.careless_store import careless_store

PLACES: Final[dict[str, Callable[[str], dict[str, Any]]]] = {
    "storage": lambda url: {"storage": url},
    "checkpoint": lambda url: {"checkpoint": url},
    "sink": lambda url: {"sink": {"type": "files", "path": url}},
}
VARIABLES: Final = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_REGION": "us-east-1"}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    backoff = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2}
    monkeypatch.setattr(clients, "_RETRIES", {"max_retries": 2, "backoff": backoff})
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace.create(tmp_path)
    made.append(1, 2)
    return made


def refused(command: str, pipeline: Path) -> str:
    """The sentence with which a command refuses; `validate` prints one for each check."""
    done: Outcome = icefloe(command, pipeline)
    assert done.code == 65, done
    return done.out if command == "validate" else done.sentence


@pytest.mark.parametrize("command", ["validate", "run"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (200, "ignores create-if-absent, which keeps two runs apart: a second create of one key succeeded"),
        (501, "the service does not implement this request (status 501); use S3, GCS, Azure, local disk or"),
    ],
)
def test_a_store_without_create_if_absent_is_refused(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, place: str, command: str, status: int, sentence: str
) -> None:
    with careless_store(status) as (endpoint, objects):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        said = refused(command, workspace.pipeline(**PLACES[place]("s3://lake/place")))
        assert "s3://lake/place" in said
        assert sentence in said
        # Nothing was begun, and the trial is gone.
        assert objects == {}


@pytest.mark.parametrize("command", ["validate", "run"])
@pytest.mark.parametrize("place", PLACES)
def test_a_store_that_looks_before_it_writes_is_refused(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, place: str, command: str
) -> None:
    with careless_store(412, window_seconds=0.05) as (endpoint, objects):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        said = refused(command, workspace.pipeline(**PLACES[place]("s3://lake/place")))
        assert "s3://lake/place" in said
        assert "ignores create-if-absent, which keeps two runs apart" in said
        assert objects == {}


@pytest.mark.parametrize("command", ["validate", "run"])
@pytest.mark.parametrize("place", PLACES)
def test_an_endpoint_without_tls_is_refused(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, place: str, command: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    said = refused(command, workspace.pipeline(**PLACES[place]("s3://lake/place")))
    assert "the endpoint http://127.0.0.1:1 of s3://lake is not encrypted" in said
    assert "set allow_http to true" in said


def test_validate_reports_each_place_that_is_not_encrypted_by_permission(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with careless_store(412) as (endpoint, objects):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        catalog = {"name": "lab", **sql_properties(workspace.folder), "s3.endpoint": "http://127.0.0.1:2/path"}
        sink = {"type": "files", "path": "s3://lake/changes"}
        done = icefloe(
            "validate",
            workspace.pipeline(storage="s3://lake/storage", checkpoint="s3://lake/kept", sink=sink, catalog=catalog),
        )
        assert (done.code, objects) == (0, {})
    lines = [line for line in done.out.splitlines() if "is not encrypted: others on the network can read" in line]
    assert [line.split()[1] for line in lines] == ["storage", "storage", "sink", "catalog"]
    assert [endpoint in line for line in lines] == [True, True, True, False]
    assert "http://127.0.0.1:2 is not encrypted" in lines[3]
