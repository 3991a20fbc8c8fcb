"""The stages of a Dockerfile, as BuildKit reads them."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from support.stack.reader_program import run_reader

__all__ = ["Stage", "load_stages"]


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
    """The stages by their names.

    Raises:
        FileRefusedError: the file is not valid.
        ServerUnavailableError: there is nothing to read it with.
    """
    stages = run_reader("dockerfile", dockerfile)
    return {
        stage["name"]: Stage(**{**stage, "copies": tuple((source, target) for source, target in stage["copies"])})
        for stage in stages
    }
