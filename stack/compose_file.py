"""A compose file as `docker compose` reads it: by its own library, compose-go, run by a small Go program."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from servers.server_process import CACHE, ServerUnavailableError
from stack.service import Service

__all__ = ["ComposeFileError", "load_compose", "read_compose"]

PROGRAM: Final = Path(__file__).parent / "compose"


class ComposeFileError(Exception):
    """compose-go refuses the file; its sentences say why."""


def load_compose(compose_file: Path, env_file: Path) -> dict[str, Service]:
    """The services by their names, every ``${VARIABLE}`` filled in from the .env file alone.

    Raises:
        ComposeFileError: the file is not valid, or a variable is missing.
        ServerUnavailableError: there is no Go to build the reader with.
    """
    document = read_compose(compose_file, env_file)
    return {name: Service.of(name, service) for name, service in document["services"].items()}


def read_compose(compose_file: Path, env_file: Path) -> dict[str, Any]:
    """The whole file as JSON, likewise.

    Raises:
        ComposeFileError: the file is not valid, or a variable is missing.
        ServerUnavailableError: there is no Go to build the reader with.
    """
    done = subprocess.run([_build_reader(), compose_file, env_file], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ComposeFileError(done.stderr.strip())
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _build_reader() -> Path:
    """The program in the cache; builds it where it is not there.

    Raises:
        ServerUnavailableError: there is no Go, or a module could not be fetched.
    """
    sources = sorted(PROGRAM.glob("*.*"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    binary = CACHE / "bin" / f"compose-{digest}"
    if binary.is_file():
        return binary
    go = shutil.which("go")
    if go is None:
        raise ServerUnavailableError("the reader of docker-compose.yaml is built by Go, and `go` is not on the path")
    binary.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="compose-", dir=CACHE) as folder:
        places = {"GOPATH": f"{folder}/go", "GOCACHE": f"{folder}/build", "GOFLAGS": "-modcacherw -buildvcs=false"}
        built = subprocess.run(
            [go, "build", "-o", f"{folder}/compose", "."],
            cwd=PROGRAM, env={**os.environ, **places}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if built.returncode != 0:
            raise ServerUnavailableError(f"the reader of docker-compose.yaml was not built:\n{built.stderr[-2000:]}")
        # Whole or not there, whoever builds it at the same time.
        Path(folder, "compose").rename(binary)
    return binary
