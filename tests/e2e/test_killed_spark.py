"""A driver killed in the middle of phase one, with a real spark-submit."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from icefloe.api import read_changes
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.credentials import Credentials
from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.engines.run_batch import run_batch
from icefloe.engines.spark.submit import SparkSubmit
from icefloe.flow import Phase
from icefloe.pipeline.pipeline_file import load_pipeline
from support.pipelines.workspace import Workspace

pytestmark = pytest.mark.spark

FILES = 12
RUN = """
import os, sys
from icefloe.batch.credentials import Credentials
from icefloe.batch.context.session import PipelineSession
from icefloe.engines.run_batch import run_batch
from icefloe.pipeline.pipeline_file import load_pipeline
session = PipelineSession.open(load_pipeline(sys.argv[1]), credentials=Credentials(), environ=os.environ)
run_batch(session, environ=os.environ)
"""


def test_the_rerun_of_a_killed_driver_redoes_only_what_is_missing(tmp_path: Path) -> None:
    lab = Workspace.create(tmp_path)
    for first in range(0, 100 * FILES, 100):
        lab.append(*range(first, first + 100))
    conf = {"spark.master": "local[2]", "spark.ui.enabled": "false"}
    pipeline = lab.pipeline(engine=None, initial_load="from_now", shuffle={"map_task_bytes": 1}, spark={"conf": conf})
    run_batch(session_of(pipeline), environ=os.environ)
    table = lab.table.refresh()
    after = table.metadata.current_snapshot_id
    rewritten = Path(next(iter(table.scan().plan_files())).file.file_path.removeprefix("file://"))
    lab.update(*range(0, 100 * FILES, 50), value=2.0)

    with withheld(rewritten):
        kept = run_until_a_map_output_is_committed(pipeline, lab.storage() / "shuffle" / "events")
    session = session_of(pipeline)
    prepared = open_and_plan(session)
    assert prepared.reference is not None
    assert 0 < len(kept) < prepared.reference.open().plan.num_map_tasks
    SparkSubmit.of(session.pipeline, environ=os.environ).run(Phase.SHUFFLE_WRITE, prepared.reference)
    assert kept == {name: content for name, content in records(next(iter(kept)).parents[2]).items() if name in kept}
    assert all(len(list(path.parent.glob(f"{path.name}.*.data"))) == 1 for path in kept), "a committed task ran again"
    # Spark's part is done; another driver would show nothing more.
    pipeline.write_text(f"{pipeline.read_text()}engine: local\n")
    run_batch(session_of(pipeline), environ=os.environ)

    expected = read_changes(table.refresh(), after_snapshot_id=after, identifier_columns=["id"]).read_all()
    found = [row for part in lab.delivered(1).values() for row in part]
    assert counted(found) == counted(expected.to_pylist())


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
    return PipelineSession.open(load_pipeline(pipeline), credentials=Credentials(), environ=os.environ)


def counted(changes: Sequence[Mapping[str, object]]) -> Counter[tuple[object, ...]]:
    return Counter((row["_change_type"], row["id"], row["value"]) for row in changes)
