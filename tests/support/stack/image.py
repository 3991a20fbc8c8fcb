"""The replacement of an image on a machine without Docker."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from support.stack.service import Service

__all__ = ["SYSTEM_PATH", "Image"]

SYSTEM_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
"""Where each image has the programs of its distribution."""


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
        """Fetches and makes what its services need."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """The variables that the image itself sets."""

    def command(self, service: Service) -> list[str]:
        """The command of its entry point, with paths and names of containers."""
        return list(service.command)

    def before_start(self, environment: Mapping[str, str]) -> None:  # noqa: B027 - most have nothing to do
        """The steps of its entry point before the command, with the service's variables."""

    def remove(self) -> None:  # noqa: B027 - most keep nothing elsewhere
        """Removes what it keeps outside of the stack's folder."""

    @property
    def working_folder(self) -> Path:
        """The folder in which its processes start."""
        return self.folder
