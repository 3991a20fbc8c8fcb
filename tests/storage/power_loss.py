"""The system calls of a real process, recorded by strace, and what a loss of power would have left at any of them.

The model is the weakest that POSIX allows: a file's bytes are on disk once it was synced after its last write, an entry
of a folder (a made, linked or renamed name) once that folder was synced afterwards. Nothing else is.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.missing import require_program

__all__ = ["Disk", "Syscall", "recorded"]

_CALLS = (
    "openat,write,pwrite64,writev,copy_file_range,sendfile,ftruncate,fsync,fdatasync,"
    "link,linkat,rename,renameat,renameat2,mkdir"
)
_LINE = re.compile(r"(?P<pid>\d+) +(?P<rest>.*)")
_CALL = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+)", re.DOTALL)
_FIRST_FILE = re.compile(r"\d+<(?P<path>/[^>]*)>")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, kw_only=True)
class Syscall:
    """One call that succeeded: its number in the order of ends, and the number of the line where it began."""

    began: int
    ended: int
    name: str
    paths: tuple[str, ...]


def recorded(arguments: Sequence[str], trace: Path, environ: Mapping[str, str]) -> list[Syscall]:
    """Runs Python under strace; its calls on files, in the order in which they ended."""
    require_program("strace")
    command = ["strace", "-f", "-y", "-s", "0", "-e", "signal=none", "-e", f"trace={_CALLS}", "-o", str(trace)]
    done = subprocess.run([*command, sys.executable, *arguments], env={**os.environ, **environ}, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return list(_parsed(trace.read_text().splitlines()))


def _parsed(lines: Sequence[str]) -> Iterator[Syscall]:
    open_calls: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines):
        match = _LINE.fullmatch(line)
        assert match is not None, line
        pid, rest, began = match["pid"], match["rest"], number
        if rest.endswith("<unfinished ...>"):
            open_calls[pid] = number, rest.removesuffix("<unfinished ...>").rstrip()
            continue
        if resumed := re.match(r"<\.\.\. \w+ resumed>", rest):
            began, start = open_calls.pop(pid)
            rest = start + rest[resumed.end() :]
        call = _CALL.match(rest)
        if call is None or int(call["result"]) < 0:
            continue
        file = _FIRST_FILE.match(call["arguments"])
        quoted = tuple(_QUOTED.findall(call["arguments"]))
        paths = quoted if call["name"] in ("link", "linkat", "rename", "renameat", "renameat2", "mkdir") else ()
        if not paths and file is not None:
            paths = (file["path"],)
        if call["name"] == "openat" and "O_CREAT" in call["arguments"]:
            paths = quoted
        elif call["name"] == "openat":
            continue
        if not paths:  # a pipe or a socket
            continue
        yield Syscall(began=began, ended=number, name=call["name"], paths=paths)


@dataclass
class Disk:
    """The state of the disk after some calls, as far as a process may rely on it.

    Attributes:
        below: only this folder counts.
    """

    below: Path
    _written: dict[str, int] = field(default_factory=dict)
    _synced: dict[str, int] = field(default_factory=dict)
    _entries: dict[str, int] = field(default_factory=dict)
    _folders: set[str] = field(default_factory=set)

    def apply(self, call: Syscall) -> None:
        """Takes one more call into account."""
        if call.name in ("fsync", "fdatasync"):
            self._synced[call.paths[0]] = max(call.began, self._synced.get(call.paths[0], -1))
        elif call.name in ("mkdir", "openat"):
            self._entries[call.paths[0]] = call.ended
            self._folders |= {call.paths[0]} if call.name == "mkdir" else set()
        elif call.name in ("link", "linkat", "rename", "renameat", "renameat2"):
            source, target = call.paths[0], call.paths[-1]
            for of in (self._written, self._synced):
                if source in of:
                    of[target] = of[source]
            self._entries[target] = call.ended
            if not call.name.startswith("link"):
                self._entries.pop(source, None)
        else:
            self._written[call.paths[0]] = call.ended

    def is_whole(self, path: str) -> bool:
        """True if all bytes of a file are on disk."""
        return self._synced.get(path, -1) > self._written.get(path, -1) or path not in self._written

    def is_found(self, path: str) -> bool:
        """True if its name and the names of the folders above it are on disk."""
        return all(
            self._synced.get(str(Path(name).parent), -1) > made
            for name in (path, *map(str, Path(path).parents))
            if (made := self._entries.get(name)) is not None
        )

    def lost(self) -> list[str]:
        """Visible values that a loss of power would take or empty now."""
        values = (path for path in self._entries if path.startswith(f"{self.below}/") and path not in self._folders)
        return [
            path for path in values if "#" not in Path(path).name and not (self.is_whole(path) and self.is_found(path))
        ]
