from collections.abc import Iterator
from datetime import timedelta as duration
from pathlib import Path

import pytest

from demo.servers.free_port import free_port
from icefloe.storage import clients
from redaction.echo_server import echo_server
from support.pipelines.workspace import Workspace


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with echo_server() as url:
        yield url


@pytest.fixture(scope="module")
def closed_host() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("ICEFLOE_PATIENCE_SECONDS", "6")
    home, lake = tmp_path / "home", tmp_path / "lake"
    home.mkdir()
    lake.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PYICEBERG_HOME", str(home))
    backoff = {"init_backoff": duration(milliseconds=1), "max_backoff": duration(milliseconds=2), "base": 2}
    monkeypatch.setattr(
        clients, "_RETRIES", {"max_retries": 1, "retry_timeout": duration(seconds=2), "backoff": backoff}
    )
    made = Workspace.create(lake)
    made.append(1, 2, 3)
    return made
