"""The pipelines of a compose file with another engine."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import yaml

from support.stack.service import Mount, Service

__all__ = ["ENGINES", "with_engine"]

ENGINES: Final = ("auto", "local", "spark")
_PIPELINES: Final = "/opt/icefloe/dags/pipelines"


def with_engine(services: Mapping[str, Service], engine: str, *, folder: Path) -> dict[str, Service]:
    """Services whose pipelines have this engine; a copy of their files is made in the folder."""
    [source] = {mount.source for service in services.values() for mount in service.mounts if _holds_pipelines(mount)}
    for path in Path(source).glob("*.yaml"):
        pipeline = yaml.safe_load(path.read_text()) | {"engine": engine}
        (folder / path.name).write_text(yaml.safe_dump(pipeline))
    return {
        name: replace(
            service,
            mounts=tuple(
                replace(mount, source=str(folder)) if _holds_pipelines(mount) else mount for mount in service.mounts
            ),
        )
        for name, service in services.items()
    }


def _holds_pipelines(mount: Mount) -> bool:
    return mount.target == _PIPELINES
