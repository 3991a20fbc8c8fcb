"""What a stage of the Dockerfile copies into its image."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["copies", "make_working_folder"]

_INSTRUCTION: Final = re.compile(r"^(FROM|WORKDIR|COPY) +(.+)$", re.MULTILINE)


def copies(dockerfile: str, stage: str) -> Iterator[tuple[str, str]]:
    r"""Each file or folder of the repository and its place below the working folder.

    >>> list(copies("FROM a AS x\nCOPY p q\nFROM b AS y\nCOPY r s\n", "x"))
    [('p', 'q')]
    """
    current = None
    for name, rest in _INSTRUCTION.findall(dockerfile):
        if name == "FROM":
            current = rest.partition(" AS ")[2]
        elif name == "COPY" and current == stage:
            source, target = rest.split()
            yield source, target


def make_working_folder(root: Path, stage: str, folder: Path) -> None:
    """Copies what the image of a stage would hold, and nothing else, so that a forgotten COPY is found."""
    for source, target in copies((root / "Dockerfile").read_text(encoding="utf-8"), stage):
        place = folder / target
        place.parent.mkdir(parents=True, exist_ok=True)
        if (root / source).is_dir():
            shutil.copytree(root / source, place, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        else:
            shutil.copy(root / source, place)
