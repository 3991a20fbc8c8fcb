"""PostgreSQL's image: the machine's own package, and what the entry point makes at the first start."""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from demo.servers.server_process import as_user
from support.servers.postgresql import find_programs, give_to, server_user
from support.stack.image import SYSTEM_PATH, Image
from support.stack.service import Service

__all__ = ["PostgresImage"]


@dataclass(kw_only=True)
class PostgresImage(Image):
    """PostgreSQL of the machine's package or of a wheel."""

    def prepare(self) -> None:
        """Finds it; as root it runs as its own user, in a folder that this user may reach."""
        self._programs = find_programs()
        self.user = server_user()
        if self.user is not None:
            self.folder = Path(tempfile.mkdtemp(prefix="icefloe-stack-"))
            give_to(self.user, self.folder)
        self.folders |= {"/var/lib/postgresql/data": self.folder / "data"}

    def environment(self) -> dict[str, str]:
        """A path with its programs."""
        return {"PATH": f"{self._programs}:{SYSTEM_PATH}", "PGDATA": str(self.folder / "data")}

    def command(self, service: Service) -> list[str]:
        """The service's, with a socket where this user may make one."""
        return [*service.command, "-c", f"unix_socket_directories={self.folder}"]

    def before_start(self, environment: Mapping[str, str]) -> None:
        """Makes the user and the database that the variables name."""
        password, statement = self.folder / "password", self.folder / "database.sql"
        password.write_text(environment["POSTGRES_PASSWORD"], encoding="utf-8")
        statement.write_text(f"CREATE DATABASE {environment['POSTGRES_DB']}\n", encoding="utf-8")
        for path in (password, statement):
            path.chmod(0o600)
            if self.user is not None:
                give_to(self.user, path)
        self._run(
            "initdb", "--username", environment["POSTGRES_USER"], "--pwfile", str(password),
            "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync",
        )  # fmt: skip
        password.unlink()
        with statement.open() as sql:
            self._run("postgres", "--single", "-j", "postgres", stdin=sql)

    def remove(self) -> None:
        """Removes the folder that its user could reach."""
        if self.user is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str, stdin: int | TextIO = subprocess.DEVNULL) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments], env=self.environment(), cwd=self.folder, stdin=stdin,
            capture_output=True, text=True, check=False, **as_user(self.user),
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{program} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
