"""The commands of docs/compose.md."""

import re
from pathlib import Path
from typing import Final

__all__ = ["PAGE", "documented_commands"]

PAGE: Final = (Path(__file__).parents[3] / "docs" / "compose.md").read_text(encoding="utf-8")


def documented_commands() -> list[list[str]]:
    """The words of each `docker compose` command of the page, without these two."""
    return [command.split() for command in re.findall(r"`docker compose (.+?)`", PAGE)]
