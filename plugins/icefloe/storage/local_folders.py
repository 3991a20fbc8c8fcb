"""The local disks on which a task may keep data that does not fit into memory."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from icefloe.errors import TransientError, one_line

__all__ = ["local_folders", "on_local_disk"]

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


@contextmanager
def on_local_disk(failed: str) -> Iterator[None]:
    """Turns errors of the local disk into an error that may go away on retry.

    Args:
        failed: what cannot be done, such as "the spill files of a map task cannot be written".

    Raises:
        TransientError: the disk is full or broken.
    """
    try:
        yield
    except OSError as cause:
        raise TransientError(
            f"{failed}: {one_line(cause)}; free space there, or set SPARK_LOCAL_DIRS or TMPDIR to a larger disk"
        ) from cause
