"""The replacement of each image of docker-compose.yaml: the same programs, installed or fetched."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from demo.servers import kafka, opensearch
from demo.servers.free_port import free_port
from demo.servers.jars import class_path, java_program
from demo.servers.server_process import as_user
from support.servers.postgresql import find_programs, give_to, server_user
from support.servers.rest_catalog import JARS
from support.servers.versitygw import build_versitygw
from support.stack.image import SYSTEM_PATH, Image
from support.stack.reader_program import load_stages
from support.stack.service import Service

__all__ = ["IMAGES", "KafkaImage", "OpenSearchImage", "PostgresImage"]

_NO_SETTINGS: Final = ("KAFKA_HEAP_OPTS",)
_CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
"""The id that the image gives to a broker whose variables give none."""


@dataclass(kw_only=True)
class KafkaImage(Image):
    """A broker; each variable ``KAFKA_NODE_ID`` is the setting ``node.id``."""

    def prepare(self) -> None:
        """Fetches its jars."""
        self._class_path = class_path(kafka.JARS)

    def environment(self) -> dict[str, str]:
        """Its jars."""
        return {"PATH": SYSTEM_PATH, "CLASSPATH": self._class_path}

    def command(self, service: Service) -> list[str]:
        """The broker, with the memory that the service gives it."""
        memory = shlex.split(service.environment.get("KAFKA_HEAP_OPTS", ""))
        return [java_program(), *memory, "kafka.Kafka", str(self.folder / "server.properties")]

    def before_start(self, environment: Mapping[str, str]) -> None:
        """Writes the settings, and formats the folder of the data."""
        settings = {
            name.removeprefix("KAFKA_").lower().replace("_", "."): value
            for name, value in environment.items()
            if name.startswith("KAFKA_") and name not in _NO_SETTINGS
        }
        configuration = self.folder / "server.properties"
        configuration.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        done = subprocess.run(
            [java_program(), "kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", _CLUSTER_ID,
             "-c", configuration],
            env=self.environment(), capture_output=True, text=True, cwd=self.folder, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"the broker's folder could not be formatted:\n{done.stdout}{done.stderr}")


@dataclass(kw_only=True)
class OpenSearchImage(Image):
    """One node; each variable with a dot in its name is a setting."""

    def prepare(self) -> None:
        """Fetches its jars, and finds a Java that is recent enough."""
        self._class_path, self._java = class_path(opensearch.JARS), opensearch.find_recent_java()

    def environment(self) -> dict[str, str]:
        """A path for the health check."""
        return {"PATH": SYSTEM_PATH}

    def command(self, service: Service) -> list[str]:
        """The node, with the memory and the settings that the service gives it, on the image's own port."""
        memory = shlex.split(service.environment["OPENSEARCH_JAVA_OPTS"])
        settings = [f"{name}={value}" for name, value in service.environment.items() if "." in name]
        data = "path.data=/usr/share/opensearch/data"
        return [
            str(self._java), *memory, "-cp", self._class_path, str(opensearch.NODE), str(self.folder),
            "9200", str(free_port()), data, *settings,
        ]  # fmt: skip


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


ROOT: Final = Path(__file__).resolve().parents[3]


@dataclass(kw_only=True)
class Icefloe(Image):
    """The repository's image: what the Dockerfile copies, with this environment's packages."""

    def prepare(self) -> None:
        """Copies the code."""
        java_program()
        load_stages(ROOT / "Dockerfile")["icefloe"].copy_files(ROOT, self.working_folder)
        spark = self.folder / "spark"
        spark.mkdir(mode=0o700)
        self.folders |= {"/opt/venv": Path(sys.prefix), "/opt/icefloe": self.working_folder, "/run/spark": spark}

    def environment(self) -> dict[str, str]:
        """The path with the packages' programs and Java."""
        path = f"{sys.prefix}/bin:{Path(java_program()).parent}:{SYSTEM_PATH}"
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
        return {"PATH": SYSTEM_PATH}

    def command(self, service: Service) -> list[str]:
        """The image's entry point is the program."""
        return [str(self._program), *service.command]


@dataclass(kw_only=True)
class RestCatalog(Image):
    """Iceberg's REST catalog, from Maven Central."""

    def prepare(self) -> None:
        """Fetches its jars."""
        self._class_path = class_path(JARS)
        self.folder.mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        """Its jars, and the one setting of the image that changes what the catalog answers."""
        return {"PATH": SYSTEM_PATH, "CLASSPATH": self._class_path, "CATALOG_JDBC_STRICT__MODE": "true"}

    def command(self, service: Service) -> list[str]:  # noqa: ARG002 - the image's own command takes nothing
        """The image's own command."""
        return [java_program(), "org.apache.iceberg.rest.RESTCatalogServer"]


IMAGES: Final[Mapping[str, type[Image]]] = {
    "apache/iceberg-rest-fixture": RestCatalog,
    "apache/kafka": KafkaImage,
    "icefloe": Icefloe,
    "icefloe-object-store": ObjectStore,
    "opensearchproject/opensearch": OpenSearchImage,
    "postgres": PostgresImage,
}
"""By the names of docker-compose.yaml."""
