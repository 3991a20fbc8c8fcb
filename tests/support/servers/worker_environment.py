"""The environment in which Spark's workers run Python."""

import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from make.worker_environment import build_archive

__all__ = ["WorkerEnvironment"]


@dataclass(frozen=True)
class WorkerEnvironment:
    """Made when a test asks for it; one is enough for all clusters."""

    folder: Path

    @cached_property
    def archive(self) -> Path:
        """The environment as what `make env` calls packs it."""
        return build_archive(self.folder / "archive", compression=1)[0]

    @cached_property
    def python(self) -> Path:
        """Its Python, unpacked where an image would have it."""
        environment = self.folder / "environment"
        with tarfile.open(self.archive) as packed:
            packed.extractall(environment, filter="data")
        return environment / "bin" / "python"
