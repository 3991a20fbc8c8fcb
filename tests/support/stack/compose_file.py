"""A compose file as `docker compose` reads it."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from support.stack.reader_program import run_reader
from support.stack.service import Service

__all__ = ["load_compose", "read_compose"]


def load_compose(compose_file: Path, env_file: Path, *, profiles: Collection[str] = ()) -> dict[str, Service]:
    """The services by their names, ``${VARIABLE}`` filled in from the .env file alone.

    Args:
        compose_file: docker-compose.yaml.
        env_file: the .env file.
        profiles: whose services start too, beside those without a profile.

    Raises:
        FileRefusedError: the file is not valid, or a variable is missing.
        ServerUnavailableError: there is nothing to read it with.
    """
    document = read_compose(compose_file, env_file)
    return {
        name: Service.of(name, service)
        for name, service in document["services"].items()
        if "profiles" not in service or set(profiles) & set(service["profiles"])
    }


def read_compose(compose_file: Path, env_file: Path) -> dict[str, Any]:
    """The whole file as JSON, likewise.

    Raises:
        FileRefusedError: the file is not valid, or a variable is missing.
        ServerUnavailableError: there is nothing to read it with.
    """
    document: dict[str, Any] = run_reader("compose", compose_file, env_file)
    return document
