"""``icefloe purge``: remove the marks of deleted rows from a sink."""

from argparse import Namespace
from datetime import UTC, datetime, timedelta

from icefloe.batch.context.sinks import sink_of_pipeline
from icefloe.cli.changing_command import changing_command
from icefloe.cli.consent import is_agreed
from icefloe.cli.pipeline_session import credentials_here, warn_of_connections
from icefloe.cli.screen import Screen
from icefloe.errors import UsageError
from icefloe.pipeline.model import Pipeline


@changing_command
def purge(pipeline: Pipeline, arguments: Namespace, screen: Screen) -> int:
    """Counts old marks of the pipeline's sink, asks, and removes them.

    Raises:
        UsageError: the sink keeps no marks, or there is nobody to ask.
        TransientError: the sink did not answer.
    """
    warn_of_connections(pipeline)
    before = datetime.now(UTC) - timedelta(seconds=arguments.older_than)
    purged = 0
    credentials = credentials_here(pipeline)
    with sink_of_pipeline(pipeline, credentials) as sink:
        if sink is None or not sink.keeps_deletions:
            raise UsageError(
                f"a sink of type {pipeline.sink.type} keeps no marks of deleted rows, so there is nothing to purge",
                pipeline=pipeline.name,
            )
        with screen.under_way("counting"):
            found = sink.purge(before=before, dry_run=True)
        shown = f"{found:,} marks of rows of {pipeline.name} that were deleted before {before:%Y-%m-%d %H:%M} UTC"
        if found == 0 or arguments.dry_run:
            screen.say(f"would remove {shown}")
        elif is_agreed(f"remove {shown}?", yes=arguments.yes):
            with screen.under_way("removing"):
                purged = sink.purge(before=before)
            screen.say(f"removed {purged:,} of {shown}")
    if arguments.json:
        screen.json({"pipeline": pipeline.name, "found": found, "purged": purged})
    return 0
