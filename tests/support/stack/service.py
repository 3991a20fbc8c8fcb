"""A service of a compose file, as far as its process is concerned."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import yaml

from support.stack.reader_program import run_reader

__all__ = [
    "ENGINES",
    "LOCALHOST",
    "Mount",
    "Service",
    "Translation",
    "all_ports",
    "load_compose",
    "read_compose",
    "with_engine",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A volume by its name, or a folder of this machine by its path.

    Attributes:
        target: the path in the container.
    """

    is_volume: bool
    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The command of its container.

    Attributes:
        image: without its tag.
        command: empty: the image's own.
        depends_on: the condition by service.
        health_check: a command; empty for a service that runs once.
        ports: on which it listens.
        published: the ports of the host by those it listens on.
    """

    name: str
    image: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    depends_on: Mapping[str, str]
    health_check: tuple[str, ...]
    mounts: tuple[Mount, ...]
    ports: tuple[int, ...]
    published: Mapping[int, int]

    @classmethod
    def of(cls, name: str, document: Mapping[str, Any]) -> Self:
        """A service of the JSON that compose-go prints."""
        published = {port["target"]: int(port["published"]) for port in document.get("ports", ())}
        return cls(
            name=name,
            image=document["image"].rsplit(":", 1)[0],
            command=tuple(document["command"] or ()),
            environment=document.get("environment", {}),
            depends_on={other: need["condition"] for other, need in document.get("depends_on", {}).items()},
            health_check=_health_check(document.get("healthcheck", {}).get("test", ())),
            mounts=tuple(_mount(mount) for mount in document.get("volumes", ())),
            ports=tuple(sorted({*published, *(int(port) for port in document.get("expose", ()))})),
            published=published,
        )

    @property
    def runs_once(self) -> bool:
        """True if it is meant to end."""
        return not self.health_check


def _health_check(test: tuple[str, ...]) -> tuple[str, ...]:
    if not test:
        return ()
    kind, *command = test
    if kind == "CMD":
        return tuple(command)
    if kind == "CMD-SHELL":
        return ("sh", "-c", *command)
    raise ValueError(f"a health check begins with CMD or CMD-SHELL, not {kind}")


def _mount(document: Mapping[str, Any]) -> Mount:
    return Mount(is_volume=document["type"] == "volume", source=document["source"], target=document["target"])


LOCALHOST: Final = "127.0.0.1"
"""Where every service listens here."""
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
        self._here = dict.fromkeys((*hosts, "0.0.0.0"), LOCALHOST)
        self._here |= {str(port): str(here) for port, here in ports.items()}
        self._here |= {path: str(here) for path, here in folders.items()}
        # The longest first: a volume may lie below another's folder.
        names = sorted(self._here, key=len, reverse=True)
        words = "|".join(re.escape(name) for name in names if not name.startswith("/"))
        paths = "|".join(re.escape(name) for name in names if name.startswith("/")) or "(?!)"
        self._pattern = re.compile(f"{_BEFORE_NAME}(?:{words}){_AFTER_NAME}|(?<![\\w/])(?:{paths})(?![\\w.-])")

    def __call__(self, text: str) -> str:
        """The text as it is right on this machine."""
        return self._pattern.sub(lambda found: self._here[found[0]], text)


def all_ports(services: Iterable[Service]) -> list[int]:
    """Every port of the file; each has its number to itself."""
    ports = [port for service in services for port in service.ports]
    if len(ports) != len(set(ports)):
        raise ValueError(f"two services listen on the same port, and here they would meet: {sorted(ports)}")
    return ports


def load_compose(compose_file: Path, env_file: Path, *, profiles: Collection[str] = ()) -> dict[str, Service]:
    """The services by their names, ``${VARIABLE}`` filled in from the .env file alone.

    Args:
        compose_file: docker-compose.yaml.
        env_file: the .env file.
        profiles: whose services start too, beside those without a profile.
    """
    document = read_compose(compose_file, env_file)
    return {
        name: Service.of(name, service)
        for name, service in document["services"].items()
        if "profiles" not in service or set(profiles) & set(service["profiles"])
    }


def read_compose(compose_file: Path, env_file: Path) -> dict[str, Any]:
    """The whole file as JSON, likewise."""
    document: dict[str, Any] = run_reader("compose", compose_file, env_file)
    return document


ENGINES: Final = ("auto", "local", "spark")
_PIPELINES: Final = "/opt/icefloe/dags/pipelines"


def with_engine(services: Mapping[str, Service], engine: str, *, folder: Path) -> dict[str, Service]:
    """Services whose pipelines have this engine; a copy of their files is made in the folder."""
    [source] = {mount.source for service in services.values() for mount in service.mounts if _holds_pipelines(mount)}
    for path in Path(source).glob("*.yaml"):
        pipeline = yaml.safe_load(path.read_text()) | {"engine": engine}
        (folder / path.name).write_text(yaml.safe_dump(pipeline))
    return {
        name: replace(
            service,
            mounts=tuple(
                replace(mount, source=str(folder)) if _holds_pipelines(mount) else mount for mount in service.mounts
            ),
        )
        for name, service in services.items()
    }


def _holds_pipelines(mount: Mount) -> bool:
    return mount.target == _PIPELINES
