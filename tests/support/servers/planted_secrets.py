"""The places that are searched for planted secrets: files, and the arguments of every process that runs meanwhile."""

import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Self

__all__ = ["CommandLines", "files_with", "read_url"]

_PAUSE_SECONDS = 0.1


class CommandLines:
    """Collects the arguments of all processes of this machine while it is entered; see `arguments`."""

    def __init__(self) -> None:
        self.arguments: set[bytes] = set()
        self._is_over = Event()
        self._thread = Thread(target=self._collect)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _collect(self) -> None:
        while not self._is_over.wait(_PAUSE_SECONDS):
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    self.arguments.update(process.read_bytes().split(b"\0"))


def read_url(url: str) -> str:
    """The answer of a server."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def files_with(text: str, folders: Iterable[Path]) -> list[Path]:
    """The files below folders that hold a text."""
    found = []
    for folder in folders:
        for file in folder.rglob("*"):
            with suppress(FileNotFoundError):
                if file.is_file() and text.encode() in file.read_bytes():
                    found.append(file)
    return found
