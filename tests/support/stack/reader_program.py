"""Docker's own libraries, compose-go and BuildKit's parser, in a small Go program that prints what they read."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from demo.servers.server_process import CACHE, ServerUnavailableError
from support.servers.wheel import find_go

__all__ = ["FileRefusedError", "Stage", "load_stages", "read_compose"]

SOURCES: Final = Path(__file__).parent / "reader"


class FileRefusedError(Exception):
    """The library refuses the file; its sentences say why."""


def read_compose(compose_file: Path, env_file: Path) -> dict[str, Any]:
    """The whole file as JSON, ``${VARIABLE}`` filled in from the .env file alone."""
    document: dict[str, Any] = _run_reader("compose", compose_file, env_file)
    return document


def _run_reader(*arguments: str | Path) -> Any:
    """The JSON that the program prints; it is built the first time."""
    done = subprocess.run([_program(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FileRefusedError(done.stderr.strip())
    return json.loads(done.stdout)


def _program() -> Path:
    """The program in the cache."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stage.

    Attributes:
        base: the image that it begins with.
        user: as whom its containers run; empty: root.
        copies: each file or folder beside the Dockerfile, and its place below the working folder.
    """

    name: str
    base: str
    user: str
    copies: tuple[tuple[str, str], ...]

    def copy_files(self, source_folder: Path, folder: Path) -> None:
        """Makes a folder that holds what the image would, and nothing else, so that a forgotten COPY is found."""
        for source, target in self.copies:
            place = folder / target
            place.parent.mkdir(parents=True, exist_ok=True)
            if (source_folder / source).is_dir():
                without = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source_folder / source, place, ignore=without, dirs_exist_ok=True)
            else:
                shutil.copy(source_folder / source, place)


def load_stages(dockerfile: Path) -> dict[str, Stage]:
    """The stages by their names."""
    stages = _run_reader("dockerfile", dockerfile)
    return {
        stage["name"]: Stage(**{**stage, "copies": tuple((source, target) for source, target in stage["copies"])})
        for stage in stages
    }
