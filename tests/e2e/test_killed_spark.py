"""A driver killed in the middle of phase one, with a real spark-submit."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from icefloe.api import read_changes
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.batch.run_settings import Credentials
from icefloe.engines.run_batch import run_batch
from icefloe.engines.spark.submit import SparkSubmit
from icefloe.flow import Phase
from icefloe.pipeline.model import Pipeline

pytestmark = pytest.mark.spark

FILES = 12
TASKS = FILES + 1  # the changed rows are in a file of their own
RUN = """
import os, sys
from icefloe.batch.run_settings import Credentials
from icefloe.batch.context.session import PipelineSession
from icefloe.engines.run_batch import run_batch
session = PipelineSession.open(Pipeline.load(sys.argv[1]), credentials=Credentials(), environ=os.environ)
run_batch(session, environ=os.environ)
"""


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Many small files, each rewritten by one commit."""
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    catalog = SqlCatalog("lake", **properties)
    catalog.create_namespace("db")
    rows = [pa.table({"id": range(100 * i, 100 * i + 100), "v": [0] * 100}) for i in range(FILES)]
    made = catalog.create_table("db.t", rows[0].schema)
    with made.transaction() as transaction:
        for part in rows:
            transaction.append(part)
    return made


@pytest.fixture
def pipeline(tmp_path: Path, table: Table) -> Path:
    path = tmp_path / "killed.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "version": 1,
                "catalog": {
                    "name": "lake",
                    "type": "sql",
                    "uri": f"sqlite:///{tmp_path}/catalog.db",
                    "warehouse": f"file://{tmp_path}/warehouse",
                },
                "table": "db.t",
                "identifier_columns": ["id"],
                "initial_load": "from_now",
                "storage": f"file://{tmp_path}/storage",
                "shuffle": {"map_task_bytes": 1},
                "spark": {"conf": {"spark.master": "local[2]", "spark.ui.enabled": "false"}},
                "sink": {"type": "files", "path": f"file://{tmp_path}/changes"},
            }
        )
    )
    return path


def test_the_rerun_of_a_killed_driver_redoes_only_what_is_missing(tmp_path: Path, table: Table, pipeline: Path) -> None:
    run_batch(session_of(pipeline), environ=os.environ)
    after = table.metadata.current_snapshot_id
    rewritten = Path(next(iter(table.scan().plan_files())).file.file_path.removeprefix("file://"))
    table.overwrite(pa.table({"id": range(0, 100 * FILES, 50), "v": [1] * (2 * FILES)}), "id = 0 or v = 0 and id >= 0")

    with withheld(rewritten):
        kept = run_until_a_map_output_is_committed(pipeline, tmp_path / "storage" / "shuffle" / "killed")
    assert 0 < len(kept) < TASKS

    session = session_of(pipeline)
    prepared = open_and_plan(session)
    assert prepared.reference is not None
    SparkSubmit.of(session.pipeline, environ=os.environ).run(Phase.SHUFFLE_WRITE, prepared.reference)
    assert kept == {name: content for name, content in records(next(iter(kept)).parents[2]).items() if name in kept}
    assert all(len(list(path.parent.glob(f"{path.name}.*.data"))) == 1 for path in kept), "a committed task ran again"
    # Spark's part is done; another driver would show nothing more.
    pipeline.write_text(f"{pipeline.read_text()}engine: local\n")
    run_batch(session_of(pipeline), environ=os.environ)

    table.refresh()
    expected = read_changes(table, after_snapshot_id=after, identifier_columns=["id"]).read_all()
    assert delivered(tmp_path / "changes" / "batch=1") == counted(expected)


@contextmanager
def withheld(file: Path) -> Iterator[None]:
    """Puts a pipe in place of a file: the task that opens it waits until it is killed, so its phase cannot end."""
    kept = file.rename(file.with_suffix(".kept"))
    os.mkfifo(file)
    try:
        yield
    finally:
        file.unlink()
        kept.rename(file)


def run_until_a_map_output_is_committed(pipeline: Path, folder: Path) -> dict[Path, bytes]:
    """Starts a run and kills it, its JVM and its workers at a commit record; the records it left."""
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(pipeline)], start_new_session=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)),
    ) as run:  # fmt: skip
        while not records(folder):
            assert run.poll() is None, ((run.stdout and run.stdout.read()) or b"").decode()
            time.sleep(0.1)
        os.killpg(run.pid, signal.SIGKILL)
    return records(folder)


def records(folder: Path) -> dict[Path, bytes]:
    """The commit records of a batch; no temporary files of the store."""
    paths = folder.glob("*/1/[0-9]*.[0-9]*") if folder.is_dir() else ()
    return {path: path.read_bytes() for path in paths if path.name.count(".") == 1 and "#" not in path.name}


def session_of(pipeline: Path) -> PipelineSession:
    return PipelineSession.open(Pipeline.load(pipeline), credentials=Credentials(), environ=os.environ)


def delivered(folder: Path) -> Counter[tuple[object, ...]]:
    manifest = json.loads((folder / "_manifest.json").read_text())
    names = [name for part in manifest["parts"] for name in part["names"]]
    return counted(pa.concat_tables(pq.ParquetFile(folder / name).read() for name in names))


def counted(changes: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter((row["_change_type"], row["id"], row["v"]) for row in changes.to_pylist())
