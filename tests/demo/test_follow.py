import os
import threading
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from demo.environment import ROOT
from demo.flights_table import CATALOG, FlightsTable, catalog_properties
from demo.follow import follow
from demo.progress import Progress
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.run_settings import Credentials
from icefloe.batch.status import PipelineStatus, Trouble
from icefloe.checkpoint.log import Checkpoint
from icefloe.documents import dump_document
from icefloe.errors import TerminalError
from icefloe.pipeline.model import Pipeline
from support.pipelines.workspace import icefloe_process, python

pytestmark = [pytest.mark.slow, pytest.mark.extended]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FlightsTable:
    """The demo's table, found by PyIceberg's own configuration."""
    for name, value in catalog_properties(tmp_path).items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{CATALOG.upper()}__{name.upper()}", value)
    monkeypatch.setenv("ICEFLOE_DEMO", str(tmp_path))
    return FlightsTable.create(tmp_path)


@pytest.fixture
def pipeline(tmp_path: Path, table: FlightsTable) -> Path:
    path = tmp_path / "flights_changes.yaml"
    path.write_text((ROOT / "demo" / "pipelines" / path.name).read_text() + "engine: local\n")
    return path


@pytest.fixture
def _delivering(pipeline: Path) -> Iterator[None]:
    """Acts as Airflow does elsewhere: delivers whatever is committed, until the test is over."""
    is_over = threading.Event()

    def deliver() -> None:
        while not is_over.is_set():
            icefloe_process("run", pipeline)

    thread = threading.Thread(target=deliver)
    thread.start()
    yield
    is_over.set()
    thread.join()


@pytest.mark.usefixtures("_delivering")
def test_each_change_waits_for_its_delivery_and_is_held_against_it(table: FlightsTable, pipeline: Path) -> None:
    printed = StringIO()
    changes = (table.load_until_october, table.update_delete_and_arrive_late)
    assert follow(table, changes, Pipeline.load(pipeline), Progress(Console(file=printed, width=110))) == []
    told = printed.getvalue().splitlines()
    assert [line[:30].strip() for line in told[:3]] == ["batch", "initial load", "updates, deletes, late rows"]
    assert told[2].split()[4:6] == ["3", "shuffle"], "however many batches Airflow made of the three commits"
    assert told[-1].endswith("give the 280,810 rows of the table.")


def test_a_final_error_ends_the_wait(table: FlightsTable, pipeline: Path) -> None:
    session = PipelineSession.open(Pipeline.load(pipeline), credentials=Credentials(), environ=os.environ)
    put_final_trouble(session.checkpoint)
    with pytest.raises(TerminalError, match="the disk is full: make room"):
        follow(table, (table.load_until_october,), Pipeline.load(pipeline), Progress(Console(file=StringIO())))


def test_a_table_that_is_there_is_left_as_it_is(pipeline: Path) -> None:
    # PyIceberg reads its configuration once in a process.
    outcome = python(["-m", "demo.follow", str(pipeline)], PYTHONPATH=f"{ROOT}:{ROOT / 'plugins'}")
    assert (outcome.code, outcome.out) == (0, "nyc.flights exists already and is left unchanged.\n")


def put_final_trouble(checkpoint: Checkpoint) -> None:
    """The pipeline says that retrying cannot help."""
    trouble = Trouble.now("the disk is full: make room", phase="insert_only", is_final=True)
    status = PipelineStatus(
        pipeline="flights_changes", table="nyc.flights", branch="main", updated_at="", trouble=trouble
    )
    checkpoint.put_status(dump_document(status))
