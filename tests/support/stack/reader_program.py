"""Docker's own libraries, compose-go and BuildKit's parser, in a small Go program that prints what they read."""

import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from demo.servers.server_process import CACHE, ServerUnavailableError
from support.servers.go import find_go

__all__ = ["FileRefusedError", "run_reader"]

SOURCES: Final = Path(__file__).parent / "reader"


class FileRefusedError(Exception):
    """The library refuses the file; its sentences say why."""


def run_reader(*arguments: str | Path) -> Any:
    """The JSON that the program prints; it is built the first time.

    Raises:
        FileRefusedError: the file is not valid.
        ServerUnavailableError: the program cannot be built here.
    """
    done = subprocess.run([_program(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FileRefusedError(done.stderr.strip())
    return json.loads(done.stdout)


def _program() -> Path:
    """The program in the cache.

    Raises:
        ServerUnavailableError: there is no Go, or a module could not be fetched.
    """
    sources = b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()))
    binary = CACHE / "bin" / f"reader-{hashlib.sha256(sources).hexdigest()[:16]}"
    if not binary.is_file():
        go = find_go()
        binary.parent.mkdir(parents=True, exist_ok=True)
        _build(go, binary)
    return binary


def _build(go: Path, binary: Path) -> None:
    # A module cache of its own, gone afterwards.
    with tempfile.TemporaryDirectory(prefix="reader-", dir=CACHE) as folder:
        places = {"GOPATH": f"{folder}/go", "GOCACHE": f"{folder}/build"}
        flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw -buildvcs=false".strip()
        built = subprocess.run(
            [go, "build", "-o", f"{folder}/reader", "."],
            cwd=SOURCES, env={**os.environ, **places, "GOFLAGS": flags}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if built.returncode != 0:
            raise ServerUnavailableError(f"the reader of docker-compose.yaml was not built:\n{built.stderr[-2000:]}")
        # Whole or not there, whoever builds it at the same time.
        Path(folder, "reader").rename(binary)
