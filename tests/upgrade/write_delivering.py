"""Writes release-c4798f0.tar.xz: documents of three pipelines that deliver their batches, on one table.

It was run once, by commit c4798f0, and is here to say how::

    git worktree add /tmp/old c4798f0
    PYTHONPATH=/tmp/old/plugins python tests/upgrade/write_delivering.py

- ``delivered`` has delivered a load and a change.
- ``staged`` was killed in its second batch, before its delivery.
- ``delivering`` was killed in its second batch, when one of two parts was delivered.

The sink is a folder of files, which gets a batch of ``changes: upsert`` from where it was staged.
"""

import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import yaml
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import In

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.credentials import Credentials
from icefloe.engines.run_batch import run_batch
from icefloe.pipeline.pipeline_file import load_pipeline
from icefloe.sinks.files_delivery import FilesDelivery

FOLDER = Path("/tmp/icefloe-c4798f0")
RELEASE = Path(__file__).parent / "release-c4798f0.tar.xz"


class StopError(Exception):
    """The run dies here."""


def rows(*ids: int, value: float = 1.0) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "value": pa.array([value] * len(ids), pa.float64())})


def pipeline(name: str) -> PipelineSession:
    document = {
        "version": 1,
        "catalog": {"name": "lab", "type": "sql", "uri": f"sqlite:///{FOLDER}/catalog.db"},
        "table": "db.events",
        "identifier_columns": ["id"],
        "changes": "upsert",
        "storage": f"file://{FOLDER}/{name}",
        "engine": "local",
        "shuffle": {"partitions": 2, "target_size_bytes": 1},
        "sink": {"type": "files", "path": f"file://{FOLDER}/{name}/changes"},
    }
    path = FOLDER / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return PipelineSession.open(load_pipeline(path), credentials=Credentials(), environ=os.environ)


def run(session: PipelineSession, *, dies_in: str | None = None) -> None:
    @contextmanager
    def observe(task: str) -> Iterator[None]:
        if task == dies_in:
            raise StopError
        yield

    with suppress(StopError):
        run_batch(session.with_fresh_table(), None, environ=os.environ, observe=observe)


def one_part(deliver: Any) -> Any:
    """A delivery of parts that dies at the second one."""
    calls: list[int] = []

    def counted(*arguments: Any) -> Any:
        calls.append(0)
        if len(calls) > 1:
            raise StopError
        return deliver(*arguments)

    return counted


def main() -> None:
    rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    catalog = SqlCatalog("lab", uri=f"sqlite:///{FOLDER}/catalog.db", warehouse=f"file://{FOLDER}/warehouse")
    catalog.create_namespace("db")
    table = catalog.create_table("db.events", rows().schema)
    for first in (0, 10):
        table.append(rows(*range(first, first + 10)))
    sessions = [pipeline(name) for name in ("delivered", "staged", "delivering")]
    for session in sessions:
        run(session)
    changed = list(range(1, 19))
    table.overwrite(rows(*changed, value=2.0), overwrite_filter=In(term="id", literals=changed))
    delivered, staged, delivering = sessions
    run(delivered)
    run(staged, dies_in="deliver")
    with patch.object(FilesDelivery, "deliver", one_part(FilesDelivery.deliver)):
        run(delivering)
    with tarfile.open(RELEASE, "w:xz") as archive:
        archive.add(FOLDER, arcname="", filter=_of_nobody)
    rmtree(FOLDER)


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
