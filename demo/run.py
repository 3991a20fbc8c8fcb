"""Run icefloe's DAG on real flights for four batches and hold its counts against what was done to the table.

``--sink opensearch`` and ``--sink kafka`` start the real server and deliver to it; ``--sink mirror`` keeps a table in
another catalog equal, ``--sink history`` every version of every flight.
"""

import os
import shutil
import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any, Final

from rich.console import Console

from demo.batch_result import HEADER, BatchResult
from demo.delivered import Delivered
from demo.destination import Destination
from demo.environment import ROOT
from demo.event_topic import EventTopic
from demo.flight_history import FlightHistory
from demo.flights_table import FlightsTable, TableChange
from demo.local_airflow import DagRunError, LocalAirflow
from demo.mirror import Mirror
from demo.process_output import output_to, own_output
from demo.progress import Progress
from demo.search_index import SearchIndex
from demo.servers.server_process import ServerDiedError, ServerUnavailableError
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.report import BatchReport
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.batch.verify.verify_delivery import verify_delivery
from icefloe.errors import IcefloeError
from icefloe.pipeline.model import Pipeline

__all__ = ["SINKS", "main"]

FOLDER: Final = ROOT / ".demo"
PIPELINES: Final = ROOT / "demo" / "pipelines"
_WIDTH_OF_FILES: Final = 110
SINKS: Final[Mapping[str, type[SearchIndex] | type[EventTopic] | type[Mirror] | type[FlightHistory]]] = {
    "opensearch": SearchIndex,
    "kafka": EventTopic,
    "mirror": Mirror,
    "history": FlightHistory,
}


def main() -> int:
    """0 when every batch delivered exactly what was done to the table and `verify_batches` agrees."""
    parser = ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--sink", choices=("files", *SINKS), default="files")
    sink = SINKS.get(parser.parse_args().sink)
    console = Console(file=own_output())
    if not console.is_terminal:
        console.width = _WIDTH_OF_FILES
    progress = Progress(console)
    try:
        if sink is None:
            wrong = run_demo(FOLDER, PIPELINES / "flights_changes.yaml", progress)
        else:
            wrong = run_demo(FOLDER, PIPELINES / sink.pipeline, progress, sink(FOLDER))
    except (DagRunError, IcefloeError, ServerUnavailableError, ServerDiedError) as error:
        wrong = [str(error)]
    except KeyboardInterrupt:
        return 130
    for sentence in wrong:
        progress.say(f"WRONG {sentence}")
    return 65 if wrong else 0


def run_demo(
    folder: Path, pipeline: Path, progress: Progress, destination: Destination[Any] | None = None
) -> list[str]:
    """Make the table, run the four batches, show what was delivered; returns what is wrong, a sentence each.

    Args:
        folder: of everything that is written; deleted first.
        pipeline: the pipeline file.
        progress: says what happens.
        destination: the server that the pipeline delivers to; None: its files are the sink.
    """
    shutil.rmtree(folder, ignore_errors=True)
    with progress.step("Making an empty Iceberg table, nyc.flights"):
        table = FlightsTable.create(folder)
        table.publishes = destination is not None and destination.sees_each_state
    with ExitStack() as servers:
        if destination is not None:
            with progress.step(f"Starting {destination.title}"):
                servers.enter_context(destination)
        return _run_batches(folder, pipeline, progress, table, destination)


def _run_batches(
    folder: Path, pipeline: Path, progress: Progress, table: FlightsTable, destination: Destination[Any] | None
) -> list[str]:
    airflow = LocalAirflow(folder)
    with progress.step("Starting Airflow in this process"):
        airflow.start(pipeline, {} if destination is None else destination.connections)
    progress.say(f"\n{HEADER}")
    changes: list[TableChange] = []
    wrong: list[str] = []
    for change_table in table.changes:
        with progress.under_way("commits to nyc.flights"):
            changes.append(change_table())
        if destination is not None:
            destination.disturb(len(changes) - 1, pipeline, progress)
        started = monotonic()
        with progress.under_way(changes[-1].title) as on_task:
            airflow.run(pipeline.stem, on_task=on_task)
        report = BatchReport.load(open_session(pipeline).checkpoint, len(changes) - 1, backfill_id=None)
        result = BatchResult.of(report)
        progress.say(result.line(changes[-1].title, monotonic() - started))
        wrong += result.differences(changes[-1])
    wrong += show_delivered(Delivered(folder / "changes"), changes, progress)
    with progress.under_way("Replaying the changes"), output_to(airflow.log):
        replayed = verify_batches(open_session(pipeline))
    if replayed.is_equal:
        progress.say(
            f"\nVerified: {replayed.changes:,} changes of {replayed.batches} batches, replayed, "
            f"give the {replayed.rows:,} rows of the table."
        )
    if destination is not None:
        with output_to(airflow.log):  # clients of servers log each request
            wrong += destination.show(progress, changes, replayed.rows)
            wrong += _compare(open_session(pipeline), progress)
    return wrong + list(replayed.sentences)


def _compare(session: PipelineSession, progress: Progress) -> Sequence[str]:
    """Read everything back from the server and compare it with the table; returns the differences."""
    with progress.under_way("Reading the server back"), session.delivery_sink() as sink:
        if sink is None:
            return ()
        found = verify_delivery(session, sink)
    if found.is_equal:
        progress.say(f"\nCompared: {found.url} holds exactly the {found.rows:,} rows of the table.")
    return found.sentences


def open_session(pipeline: Path) -> PipelineSession:
    """The pipeline with its table as it is now."""
    # It imports Airflow, which reads its environment then.
    from icefloe.orchestration.connections import resolve_credentials

    loaded = Pipeline.load(pipeline)
    return PipelineSession.open(loaded, credentials=resolve_credentials(loaded), environ=os.environ)


def show_delivered(delivered: Delivered, changes: Sequence[TableChange], progress: Progress) -> list[str]:
    """Say where the change files are and show some of it; returns where they do not hold what was done."""
    folder, here = delivered.folder, Path.cwd()
    shown = folder.relative_to(here) if folder.is_relative_to(here) else folder
    progress.say(f"\nThe changes are in {shown}, for example:\n")
    progress.console.print(delivered.sample(range(len(changes)), each=2))
    counted = [delivered.counts(number) for number in range(len(changes))]
    return [
        f"{change.title}: the files hold {counts}, not {change.by_type}"
        for change, counts in zip(changes, counted, strict=True)
        if counts != change.by_type
    ]


if __name__ == "__main__":
    sys.exit(main())
