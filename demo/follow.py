"""Change the demo's table while Airflow follows it elsewhere, and hold what is delivered against what was done.

For a deployment whose catalog and store this process reaches by PyIceberg's configuration and the variables of S3's own
tools, as docker-compose.yaml sets them.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from pathlib import Path
from time import monotonic
from typing import Final

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import TableAlreadyExistsError
from rich.console import Console

from demo.batch_result import HEADER, BatchResult
from demo.flights_table import CATALOG, TABLE, FlightsTable, TableChange
from demo.progress import Progress
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.report import BatchReport
from icefloe.batch.run_settings import Credentials
from icefloe.batch.status import PipelineStatus
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.checkpoint.log import Checkpoint
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.pipeline.model import Pipeline

__all__ = ["follow", "main"]

_SECONDS_BETWEEN_LOOKS: Final = 1.0


def main(arguments: Sequence[str]) -> int:
    """0 when every change was delivered exactly and `verify_batches` agrees, or the table was there before."""
    parser = argparse.ArgumentParser(prog="python -m demo.follow", description=__doc__.splitlines()[0])
    parser.add_argument("pipeline", type=Path, help="the pipeline file that Airflow follows")
    parser.add_argument("--brief", action="store_true", help="one change that adds rows and one that updates some")
    options = parser.parse_args(arguments)
    pipeline = Pipeline.load(options.pipeline)
    progress = Progress(Console(file=sys.stdout, width=110))
    try:
        table = FlightsTable.create_in(load_catalog(CATALOG))
    except TableAlreadyExistsError:
        progress.say(f"{TABLE} exists already and is left unchanged.")
        return 0
    try:
        changes = (table.load_until_october, table.correct_delays) if options.brief else table.changes
        wrong = follow(table, changes, pipeline, progress)
    except IcefloeError as error:
        wrong = [str(error)]
    for sentence in wrong:
        progress.say(f"WRONG {sentence}")
    return 65 if wrong else 0


def follow(
    table: FlightsTable, changes: Sequence[Callable[[], TableChange]], pipeline: Pipeline, progress: Progress
) -> list[str]:
    """Make each change once the one before is delivered; returns what is wrong, a sentence each."""
    progress.say(HEADER)
    delivered, wrong = 0, []
    for change_table in changes:
        started = monotonic()
        change = change_table()
        checkpoint = _open_session(pipeline).checkpoint
        batches = range(delivered, _wait_until_delivered(checkpoint, _head(table), progress) + 1)
        reports = (BatchReport.load(checkpoint, number, backfill_id=None) for number in batches)
        result = reduce(add, map(BatchResult.of, reports))
        progress.say(result.line(change.title, monotonic() - started))
        wrong += result.differences(change)
        delivered = batches.stop
    replayed = verify_batches(_open_session(pipeline))
    if replayed.is_equal:
        progress.say(
            f"\nVerified: {replayed.changes:,} changes of {replayed.batches} batches, replayed, "
            f"give the {replayed.rows:,} rows of the table."
        )
    return wrong + list(replayed.sentences)


def _open_session(pipeline: Pipeline) -> PipelineSession:
    return PipelineSession.open(pipeline, credentials=Credentials(), environ=os.environ)


def _head(table: FlightsTable) -> int:
    snapshot = table.table.refresh().current_snapshot()
    assert snapshot is not None, "a change commits"  # noqa: S101
    return snapshot.snapshot_id


def _wait_until_delivered(checkpoint: Checkpoint, snapshot_id: int, progress: Progress) -> int:
    """The number of the batch that ended at a snapshot; meanwhile says what goes wrong and is tried again.

    Raises:
        TerminalError: the pipeline says that retrying cannot help.
    """
    told = ""
    while True:
        try:
            cursor = checkpoint.look().cursor
            if cursor is not None and cursor.snapshot_id == snapshot_id:
                return cursor.batch_number
            sentence = _trouble(checkpoint)
        except TransientError as error:
            sentence = f"{error}; the demo looks again"
        if sentence and sentence != told:
            progress.say(f"  {sentence}")
            told = sentence
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _trouble(checkpoint: Checkpoint) -> str:
    """The trouble of the pipeline that Airflow tries again; empty if there is none."""
    status = PipelineStatus.load(checkpoint)
    if status is None or status.trouble is None:
        return ""
    if status.trouble.is_final:
        raise TerminalError(status.trouble.sentence)
    return f"{status.trouble.sentence}; Airflow tries again"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
