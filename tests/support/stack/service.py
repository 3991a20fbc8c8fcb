"""A service of a compose file, as far as its process is concerned."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

__all__ = ["Mount", "Service"]


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
