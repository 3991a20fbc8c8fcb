"""The local disks where a task may keep what does not fit into memory."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["local_folders"]

_VARIABLES: Final = ("SPARK_LOCAL_DIRS", "LOCAL_DIRS")
"""Spark sets the first for its Python workers, from ``spark.local.dir`` or what its cluster gives; YARN the second."""


def local_folders(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders that Spark gives its tasks, one per disk; none where Spark named none: the machine's temporary one.

    Args:
        environ: of this process.
    """
    for variable in _VARIABLES:
        named = [Path(name) for name in environ.get(variable, "").split(",") if name]
        usable = tuple(folder for folder in named if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK))
        if usable:
            return usable
    return ()
