"""docker-compose.yaml started as plain processes of this machine, on 127.0.0.1.

The services of icefloe's own image run as the file says. Database, store and catalog are those of other tests, with the
secrets of the file.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Final, Self

import psutil

from demo.servers.free_port import free_port
from demo.servers.jars import java_program
from demo.servers.server_process import ServerProcess
from support.servers.postgresql import Postgresql
from support.servers.rest_catalog import RestCatalog
from support.servers.versitygw import Versitygw
from support.stack.reader_program import load_stages, read_compose

__all__ = ["COMPOSE_FILE", "Services", "Translation"]

ROOT: Final = Path(__file__).resolve().parents[3]
COMPOSE_FILE: Final = ROOT / "docker-compose.yaml"
_READY_SECONDS: Final = 300
_HEALTH_CHECK_SECONDS: Final = 30
_LOCALHOST: Final = "127.0.0.1"
_BEFORE_NAME: Final = r"(?<![\w.-])(?<![^/]/)"
_AFTER_NAME: Final = r"(?![\w-])"


class Translation:
    """Rewrites texts of one service.

    A service's name and 0.0.0.0 become 127.0.0.1, a port of any service the one it has here, a path of the container
    the folder that stands for it; all are recognised as whole words only, so that secrets stay as they are.

    >>> translation = Translation(
    ...     hosts=["rest-catalog"], ports={8181: 40001}, folders={"/opt/airflow": Path("/here/home")}
    ... )
    >>> translation("http://rest-catalog:8181/v1 /opt/airflow/logs")
    'http://127.0.0.1:40001/v1 /here/home/logs'
    """

    def __init__(self, *, hosts: Iterable[str], ports: Mapping[int, int], folders: Mapping[str, Path]) -> None:
        self._here = dict.fromkeys((*hosts, "0.0.0.0"), _LOCALHOST)
        self._here |= {str(port): str(here) for port, here in ports.items()}
        self._here |= {path: str(here) for path, here in folders.items()}
        # The longest first: a volume may lie below another's folder.
        names = sorted(self._here, key=len, reverse=True)
        words = "|".join(re.escape(name) for name in names if not name.startswith("/"))
        paths = "|".join(re.escape(name) for name in names if name.startswith("/"))
        self._pattern = re.compile(f"{_BEFORE_NAME}(?:{words}){_AFTER_NAME}|(?<![\\w/])(?:{paths})(?![\\w.-])")

    def __call__(self, text: str) -> str:
        """The text as it is right on this machine."""
        return self._pattern.sub(lambda found: self._here[found[0]], text)


class Services:
    """A context manager: starts each service that needs no profile after those it depends on, and ends each by its pid.

    Args:
        env_file: with the secrets.
        folder: of all that the services of icefloe's image write; the other servers have a folder beside it.
        further: arguments by service, after those of the file.

    Attributes:
        ports: the port here by the file's own.
    """

    def __init__(self, env_file: Path, folder: Path, *, further: Mapping[str, Sequence[str]]) -> None:
        services = read_compose(COMPOSE_FILE, env_file)["services"]
        self.folder = folder
        self._further = further
        self._services: dict[str, Any] = {name: each for name, each in services.items() if "profiles" not in each}
        self.ports = {port: free_port() for each in self._services.values() for port in _ports_of(each)}
        self._image = folder / "icefloe"
        self._processes: dict[str, ServerProcess] = {}
        self._servers = ExitStack()

    def __enter__(self) -> Self:
        """Copies what the image has, and starts all."""
        (self.folder / "spark").mkdir(parents=True, mode=0o700)
        load_stages(ROOT / "Dockerfile")["icefloe"].copy_files(ROOT, self._image)
        left = TopologicalSorter({name: each.get("depends_on", {}) for name, each in self._services.items()})
        left.prepare()
        try:
            with ThreadPoolExecutor() as starting:
                while left.is_active():
                    ready = left.get_ready()
                    list(starting.map(self._start, ready))
                    left.done(*ready)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all and whatever they started, as the end of their containers would."""
        running = [psutil.Process(each.pid) for each in self._processes.values() if each.exit_code is None]
        left = [child for each in running for child in each.children(recursive=True)]
        for each in running:
            each.terminate()
        for process in self._processes.values():
            process.stop()
        for child in left:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(left, timeout=_HEALTH_CHECK_SECONDS)
        self._servers.close()

    def process(self, name: str) -> ServerProcess:
        """The process of a service of icefloe's image."""
        return self._processes[name]

    def refuse_dead(self) -> None:
        """Fails where a service is gone that is to stay."""
        for name, process in self._processes.items():
            if "healthcheck" in self._services[name]:
                process.refuse_dead()

    def run(self, name: str, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        """Acts as `docker compose run NAME COMMAND`: another command with all that a service is given."""
        translate = self._translation(name)
        return subprocess.run(
            [translate(word) for word in command], cwd=self._image, env=self._environ(name), capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    def add_pipeline(self, example: str) -> None:
        """Copies an example of stack/ to the pipelines, as the page says."""
        shutil.copy(ROOT / "stack" / "examples" / f"{example}.yaml", self._image / "dags" / "pipelines")

    def dump(self) -> str:
        """All that Airflow's database holds."""
        return self._database.dump("airflow")

    def _start(self, name: str) -> None:
        service = self._services[name]
        given = service.get("environment", {})
        if name == "airflow-database":
            self._database = self._servers.enter_context(
                Postgresql(user=given["POSTGRES_USER"], password=given["POSTGRES_PASSWORD"], port=self.ports[5432])
            )
            self._database.make_database(given["POSTGRES_DB"])
        elif name == "object-store":
            secrets = {"access_key": given["ROOT_ACCESS_KEY"], "secret_key": given["ROOT_SECRET_KEY"]}
            self._store = self._servers.enter_context(
                Versitygw(folder=self._folder_beside(name), port=self.ports[7070], **secrets)
            )
        elif name == "rest-catalog":
            warehouse, folder = given["CATALOG_WAREHOUSE"], self._folder_beside(name)
            self._servers.enter_context(
                RestCatalog(folder=folder, warehouse=warehouse, store=self._store, port=self.ports[8181])
            )
        else:
            self._start_process(name)

    def _folder_beside(self, name: str) -> Path:
        return self.folder.with_name(f"{self.folder.name}-{name}")

    def _start_process(self, name: str) -> None:
        """Starts a service of icefloe's image, and waits as those that depend on it do; nobody waits for the demo."""
        service, translate = self._services[name], self._translation(name)
        process = self._processes[name] = ServerProcess(name, self._image)
        is_needed = any(name in other.get("depends_on", {}) for other in self._services.values())

        def is_ready() -> bool:
            if "healthcheck" in service:
                return self._is_healthy(name)
            return process.exit_code == 0 if is_needed else True

        command = [translate(word) for word in (*service["command"], *self._further.get(name, ()))]
        process.start(command, environ=self._environ(name), is_ready=is_ready, seconds=_READY_SECONDS)

    def _is_healthy(self, name: str) -> bool:
        kind, *command = self._services[name]["healthcheck"]["test"]
        assert kind == "CMD"
        return self.run(name, command).returncode == 0

    def _environ(self, name: str) -> dict[str, str]:
        """The variables of the image and of the service, and nothing of this process's own environment."""
        translate = self._translation(name)
        path = f"{sys.prefix}/bin:{Path(java_program()).parent}:/usr/local/bin:/usr/bin:/bin"
        java = {"JAVA_HOME": os.environ["JAVA_HOME"]} if os.environ.get("JAVA_HOME") else {}
        given = {key: translate(value) for key, value in self._services[name].get("environment", {}).items()}
        return {"PATH": path, "HOME": str(self.folder), **java, **given}

    def _translation(self, name: str) -> Translation:
        folders = {"/opt/venv": Path(sys.prefix), "/opt/icefloe": self._image, "/run/spark": self.folder / "spark"}
        for mount in self._services[name].get("volumes", ()):
            is_volume, target = mount["type"] == "volume", mount["target"]
            source = self.folder / "volumes" / mount["source"] if is_volume else Path(mount["source"])
            if target.startswith("/opt/icefloe/"):
                # A copy, to which a test may add pipelines.
                with suppress(FileExistsError):
                    shutil.copytree(source, self._image / target.removeprefix("/opt/icefloe/"))
            else:
                source.mkdir(parents=True, exist_ok=True)
                folders[target] = source
        return Translation(hosts=self._services, ports=self.ports, folders=folders)


def _ports_of(service: Mapping[str, Any]) -> set[int]:
    """The ports on which a service listens; each has its number to itself in the whole file."""
    return {*(port["target"] for port in service.get("ports", ())), *map(int, service.get("expose", ()))}
