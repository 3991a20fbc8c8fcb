"""Run icefloe's DAG on real flights for four batches and hold its counts against what was done to the table."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Final

from rich.console import Console

from demo.batch_result import HEADER, BatchResult
from demo.delivered import Delivered
from demo.environment import ROOT
from demo.flights_table import FlightsTable, TableChange, catalog_properties
from demo.local_airflow import DagRunError, LocalAirflow
from demo.process_output import output_to, own_output
from demo.progress import Progress
from icefloe.batch.commit.report import load_report
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.credentials import Credentials
from icefloe.batch.verify.replay_batches import verify_batches
from icefloe.errors import IcefloeError
from icefloe.pipeline.pipeline_file import load_pipeline

__all__ = ["main"]

FOLDER: Final = ROOT / ".demo"
PIPELINE: Final = ROOT / "demo" / "pipelines" / "flights_changes.yaml"
_WIDTH_OF_FILES: Final = 110


def main() -> int:
    """0 when every batch delivered exactly what was done to the table and `verify_batches` agrees."""
    console = Console(file=own_output())
    if not console.is_terminal:
        console.width = _WIDTH_OF_FILES
    progress = Progress(console)
    try:
        wrong = run_demo(FOLDER, PIPELINE, progress)
    except (DagRunError, IcefloeError) as error:
        wrong = [str(error)]
    except KeyboardInterrupt:
        return 130
    for sentence in wrong:
        progress.say(f"WRONG {sentence}")
    return 65 if wrong else 0


def run_demo(folder: Path, pipeline: Path, progress: Progress) -> list[str]:
    """Make the table, run the four batches, show what was delivered; returns what is wrong, a sentence each."""
    shutil.rmtree(folder, ignore_errors=True)
    with progress.step("Making an empty Iceberg table, nyc.flights"):
        table = FlightsTable.create(folder)
    airflow = LocalAirflow(folder)
    with progress.step("Starting Airflow in this process"):
        airflow.start(pipeline)
    progress.say(f"\n{HEADER}")
    changes: list[TableChange] = []
    wrong: list[str] = []
    for change_table in table.changes:
        with progress.under_way("commits to nyc.flights"):
            changes.append(change_table())
        started = monotonic()
        with progress.under_way(changes[-1].title) as on_task:
            airflow.run(pipeline.stem, on_task=on_task)
        result = BatchResult.of(load_report(open_session(folder, pipeline).checkpoint, len(changes) - 1))
        progress.say(result.line(changes[-1].title, monotonic() - started))
        wrong += result.differences(changes[-1])
    wrong += show_delivered(Delivered(folder / "changes"), changes, progress)
    with progress.under_way("Replaying the changes"), output_to(airflow.log):
        replayed = verify_batches(open_session(folder, pipeline))
    if replayed.is_equal:
        progress.say(
            f"\nVerified: {replayed.changes:,} changes of {replayed.batches} batches, replayed, "
            f"give the {replayed.rows:,} rows of the table."
        )
    return wrong + list(replayed.sentences)


def open_session(folder: Path, pipeline: Path) -> PipelineSession:
    """The pipeline with its table as it is now."""
    credentials = Credentials(catalog_properties=catalog_properties(folder))
    return PipelineSession.open(load_pipeline(pipeline), credentials=credentials, environ=os.environ)


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
