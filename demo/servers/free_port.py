"""A port for a server that takes its own port only as an argument."""

import secrets
import socket
from collections.abc import Sequence
from typing import Final

__all__ = ["free_port"]

_PORTS: Final = range(20_000, 32_000)
"""Below the ports that Linux and macOS give to outgoing connections: such a connection could begin at any moment."""
_reserved: Final[list[socket.socket]] = []
"""The marks of this process, which the system removes when the process ends, even by SIGKILL."""


def free_port(among: Sequence[int] = _PORTS) -> int:
    """A TCP port on which nobody listens, and which no other caller is given while this process lives.

    The mark by which other processes know it is a UDP socket at the same number. So the server may start whenever it
    likes, and start again after it was killed.

    Args:
        among: the ports to choose from.

    Raises:
        OSError: all of them are taken.
    """
    first = secrets.randbelow(len(among))
    for port in (*among[first:], *among[:first]):
        mark = socket.socket(type=socket.SOCK_DGRAM)
        try:
            mark.bind(("127.0.0.1", port))
            with socket.socket() as listening:
                listening.bind(("", port))
        except OSError:
            mark.close()
        else:
            _reserved.append(mark)
            return port
    raise OSError(f"all ports from {min(among)} to {max(among)} are taken on this machine: end some of its servers")
