"""From the names of containers to this machine: hosts, ports and paths in commands and variables."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from support.stack.service import Service

__all__ = ["LOCALHOST", "Translation", "all_ports"]

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
    """Every port of the file; each has its number to itself.

    Raises:
        ValueError: two services listen on the same number.
    """
    ports = [port for service in services for port in service.ports]
    if len(ports) != len(set(ports)):
        raise ValueError(f"two services listen on the same port, and here they would meet: {sorted(ports)}")
    return ports
