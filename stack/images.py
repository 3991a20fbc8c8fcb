"""What stands for each image on a machine without Docker: the same programs, installed or fetched."""

import os
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TextIO

from servers.jars import class_path, java_program
from servers.postgresql import find_programs
from servers.rest_catalog import JARS
from servers.versitygw import build_versitygw
from stack.dockerfile import load_stages
from stack.service import Service

__all__ = ["IMAGES", "Image"]

ROOT: Final = Path(__file__).resolve().parents[1]
_SYSTEM_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


@dataclass(kw_only=True)
class Image(ABC):
    """One image.

    Attributes:
        folder: of what this machine keeps for it.
        folders: what stands for paths of its containers, besides volumes.
        user: whom its processes run as, where this is not this user.
    """

    folder: Path
    folders: dict[str, Path] = field(default_factory=dict)
    user: str | None = None

    @abstractmethod
    def prepare(self) -> None:
        """Fetches and makes what its services need.

        Raises:
            ServerUnavailableError: something cannot be had on this machine.
        """

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """The variables that the image itself sets."""

    def command(self, service: Service) -> list[str]:
        """What its entry point runs, with paths and names of containers."""
        return list(service.command)

    def before_start(self, environment: Mapping[str, str]) -> None:  # noqa: B027 - most have nothing to do
        """What its entry point does before the command, with the service's variables."""

    def remove(self) -> None:  # noqa: B027 - most keep nothing elsewhere
        """Removes what it keeps outside of the stack's folder."""

    @property
    def working_folder(self) -> Path:
        """Where its processes start."""
        return self.folder


@dataclass(kw_only=True)
class Icefloe(Image):
    """The repository's image: what the Dockerfile copies, with this environment's packages."""

    def prepare(self) -> None:
        """Copies the code."""
        java_program()
        load_stages(ROOT / "Dockerfile")["icefloe"].copy_files(ROOT, self.working_folder)
        self.folders |= {"/opt/venv": Path(sys.prefix), "/opt/icefloe": self.working_folder}

    def environment(self) -> dict[str, str]:
        """The path with the packages' programs and Java."""
        path = f"{sys.prefix}/bin:{Path(java_program()).parent}:{_SYSTEM_PATH}"
        java = {"JAVA_HOME": os.environ["JAVA_HOME"]} if os.environ.get("JAVA_HOME") else {}
        return {"PATH": path, "HOME": str(self.folder), **java}

    @property
    def working_folder(self) -> Path:
        """The image's WORKDIR."""
        return self.folder / "icefloe"


@dataclass(kw_only=True)
class ObjectStore(Image):
    """versitygw, built by Go."""

    def prepare(self) -> None:
        """Builds it where it was not."""
        self._program = build_versitygw()

    def environment(self) -> dict[str, str]:
        """A path for the health check."""
        return {"PATH": _SYSTEM_PATH}

    def command(self, service: Service) -> list[str]:
        """The image's entry point is the program."""
        return [str(self._program), *service.command]


@dataclass(kw_only=True)
class Postgres(Image):
    """PostgreSQL of the machine's package."""

    def prepare(self) -> None:
        """Finds it; as root it runs as its own user, in a folder that this user may reach."""
        self._programs = find_programs()
        if os.geteuid() == 0:
            self.user = "postgres"
            self.folder = Path(tempfile.mkdtemp(prefix="icefloe-stack-"))
            shutil.chown(self.folder, self.user, self.user)
        self.folders |= {"/var/lib/postgresql/data": self.folder / "data"}

    def environment(self) -> dict[str, str]:
        """A path with its programs."""
        return {"PATH": f"{self._programs}:{_SYSTEM_PATH}", "PGDATA": str(self.folder / "data")}

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
                shutil.chown(path, self.user, self.user)
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
            capture_output=True, text=True, check=False, user=self.user, group=self.user,
            extra_groups=None if self.user is None else [],
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{program} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


@dataclass(kw_only=True)
class RestCatalog(Image):
    """Iceberg's REST catalog, from Maven Central."""

    def prepare(self) -> None:
        """Fetches its jars."""
        self._class_path = class_path(JARS)
        self.folder.mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        """Its jars, and the one setting of the image that changes what the catalog answers."""
        return {"PATH": _SYSTEM_PATH, "CLASSPATH": self._class_path, "CATALOG_JDBC_STRICT__MODE": "true"}

    def command(self, service: Service) -> list[str]:  # noqa: ARG002 - the image's own command takes nothing
        """The image's own command."""
        return [java_program(), "org.apache.iceberg.rest.RESTCatalogServer"]


IMAGES: Final[Mapping[str, type[Image]]] = {
    "apache/iceberg-rest-fixture": RestCatalog,
    "icefloe": Icefloe,
    "icefloe-object-store": ObjectStore,
    "postgres": Postgres,
}
"""By the names of docker-compose.yaml."""
