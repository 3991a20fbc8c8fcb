"""The local disks on which a task may keep data that does not fit into memory."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["local_folders"]

_VARIABLES: Final = ("SPARK_LOCAL_DIRS", "LOCAL_DIRS")
"""Spark sets the first for its Python workers, from ``spark.local.dir`` or from its cluster; YARN sets the second."""


def local_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders that Spark gives its tasks, one per disk; none if Spark named none, which means the temporary folder.

    Args:
        environ: of this process.
    """
    for variable in _VARIABLES:
        named = [Path(name) for name in environ.get(variable, "").split(",") if name]
        usable = tuple(folder for folder in named if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK))
        if usable:
            return usable
    return ()
