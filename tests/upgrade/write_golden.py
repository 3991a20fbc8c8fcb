"""Writes release-70b12fe.tar.xz and -.json: documents of four pipelines on a table, and the keys that documents have.

It was run once, by commit 70b12fe, and is here to say how::

    git worktree add /tmp/old 70b12fe
    PYTHONPATH=/tmp/old/plugins python tests/upgrade/write_golden.py

- ``committed`` has delivered a load and a change.
- ``opened`` was killed in its second batch, after shuffle_write.
- ``parts`` has delivered one of three parts of its load, and was killed right before the commit of the second.
- ``backfill`` was killed in a backfill, after shuffle_write.

Metadata and plans name their files by whole paths, and digests cover these. So the folder has a path that every machine
can have; the tests lay a link there.
"""

import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa
import yaml
from pydantic import TypeAdapter
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import In

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.credentials import Credentials
from icefloe.batch.open.requested_range import RequestedRange
from icefloe.engines.run_batch import run_batch
from icefloe.pipeline.pipeline_file import load_pipeline

FOLDER = Path("/tmp/icefloe-70b12fe")
HERE = Path(__file__).parent
RELEASE = "release-70b12fe"
KINDS = (
    "icefloe.batch.report:BatchReport",
    "icefloe.shuffle.reduce_ranges:CoalescePlan",
    "icefloe.checkpoint.records:CommitRecord",
    "icefloe.sinks.manifest:Manifest",
    "icefloe.shuffle.map_output_record:MapOutputRecord",
    "icefloe.batch.plan.task_document:MapTask",
    "icefloe.checkpoint.records:OffsetRecord",
    "icefloe.checkpoint.records:OwnerRecord",
    "icefloe.batch.phase_record:PhaseRecord",
    "icefloe.checkpoint.records:PipelineRecord",
    "icefloe.batch.status.pipeline_status:PipelineStatus",
    "icefloe.batch.plan_document:Plan",
    "icefloe.batch.reduce.batch_extents:RangeExtents",
    "icefloe.batch.stage.range_results:RangeResult",
    "icefloe.sinks.claim:SinkClaim",
)
"""Where that release has them."""


class StopError(Exception):
    """The run dies here."""


def rows(*ids: int, value: float = 1.0) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "value": pa.array([value] * len(ids), pa.float64())})


def pipeline(name: str, **keys: Any) -> PipelineSession:
    document = {
        "version": 1,
        "catalog": {"name": "lab", "type": "sql", "uri": f"sqlite:///{FOLDER}/catalog.db"},
        "table": "db.events",
        "identifier_columns": ["id"],
        "storage": f"file://{FOLDER}/{name}",
        "engine": "local",
        "shuffle": {"partitions": 2},
        "sink": {"type": "files", "path": f"file://{FOLDER}/{name}/changes"},
        **keys,
    }
    path = FOLDER / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return PipelineSession.open(load_pipeline(path), credentials=Credentials(), environ=os.environ)


def run(session: PipelineSession, request: RequestedRange | None = None, *, dies_in: str | None = None) -> None:
    @contextmanager
    def observe(task: str) -> Iterator[None]:
        if task == dies_in:
            raise StopError
        yield

    with suppress(StopError):
        run_batch(session.with_fresh_table(), request, environ=os.environ, observe=observe)


def main() -> None:
    rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    catalog = SqlCatalog("lab", uri=f"sqlite:///{FOLDER}/catalog.db", warehouse=f"file://{FOLDER}/warehouse")
    catalog.create_namespace("db")
    table = catalog.create_table("db.events", rows().schema)
    for first in (0, 10, 20):
        table.append(rows(*range(first, first + 10)))
    loaded = table.current_snapshot()
    assert loaded is not None
    committed, opened = pipeline("committed"), pipeline("opened")
    parts, backfill = pipeline("parts", max_bytes_per_batch=1), pipeline("backfill")
    for session in (committed, opened, parts):
        run(session)
    run(parts, dies_in="commit")
    table.overwrite(rows(1, 11, value=2.0), overwrite_filter=In(term="id", literals=[1, 11]))
    run(committed)
    run(opened, dies_in="coalesce")
    run(backfill, RequestedRange(after_snapshot_id=loaded.snapshot_id), dies_in="coalesce")
    with tarfile.open(HERE / f"{RELEASE}.tar.xz", "w:xz") as archive:
        archive.add(FOLDER, arcname="", filter=_of_nobody)
    known = {name: _known(schema, schema.get("$defs", {})) for name, schema in _schemas()}
    (HERE / f"{RELEASE}.json").write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    rmtree(FOLDER)


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    for kind in KINDS:
        module, name = kind.split(":")
        yield name, TypeAdapter(getattr(import_module(module), name)).json_schema()


def _known(schema: dict[str, Any], definitions: dict[str, Any]) -> Any:
    """The keys of an object, with what is known of each; of a value the list of those allowed, None for any."""
    if "$ref" in schema:
        return _known(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        choices = [_known(each, definitions) for each in schema["anyOf"] if each != {"type": "null"}]
        keys = [each for each in choices if isinstance(each, dict)]
        return {key: value for each in keys for key, value in each.items()} if keys else choices[0]
    if "items" in schema or "prefixItems" in schema:
        return _known(schema.get("items") or schema["prefixItems"][0], definitions)
    if "properties" in schema:
        return {key: _known(value, definitions) for key, value in schema["properties"].items()}
    if schema.get("type") == "object":
        further = schema.get("additionalProperties")
        return {"*": _known(further, definitions) if isinstance(further, dict) else None}
    return schema.get("enum") or ([schema["const"]] if "const" in schema else None)


if __name__ == "__main__":
    main()
