"""``deliver`` batches again, ``purge`` marks, ``sweep`` leftovers, serve a ``node``."""

import os
import signal
import threading
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from icefloe.batch.run_settings import Credentials
from icefloe.batch.upkeep.redelivery import Redelivery
from icefloe.batch.upkeep.survey import open_batches, survey_storage
from icefloe.cli.pipeline_session import load_named_pipeline, places_here
from icefloe.cli.screen import Screen, is_agreed
from icefloe.engines.local import LocalEngine
from icefloe.errors import IcefloeError, TerminalError, UsageError
from icefloe.node.node_config import load_node_config
from icefloe.node.node_server import serve_node
from icefloe.pipeline.environment import expand, has_reference
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.pipeline_file import check_pipeline
from icefloe.sinks.sink import PartDelivery
from icefloe.units import format_bytes

_COUNTS: Final = ("documents", "repeated", "superseded", "dead_letters", "bytes")


def deliver(arguments: Namespace, screen: Screen) -> None:
    """Delivers batches in order; ends at the first failure, and says where to go on."""
    pipeline = load_named_pipeline(arguments)
    redelivery = _redelivery(pipeline, arguments)
    with screen.under_way("looking"):
        asked = redelivery.batches(arguments.batches)
        if asked is None:
            raise UsageError("which batches? give --batches A-B, or --backfill ID")
        url = redelivery.url()
        numbers = redelivery.check(asked)
    documents = []
    for number in numbers:
        with screen.under_way(f"batch {number}"):
            documents.append(_counts(number, _delivered(redelivery, number, last=asked[-1])))
    if not documents:
        screen.say("none of these batches changed anything")
    screen.table(documents, ("batch", *_COUNTS))
    screen.answer({"pipeline": pipeline.name, "url": url, "batches": documents})


def _redelivery(pipeline: Pipeline, arguments: Namespace) -> Redelivery:
    target = pipeline
    if arguments.sink is not None:
        target = pipeline.with_sink_of(arguments.sink, os.environ)
        check_pipeline(target)
    places = places_here(target)
    return Redelivery(source=replace(places, pipeline=pipeline, backfill_id=arguments.backfill), target=places)


def _delivered(redelivery: Redelivery, number: int, *, last: int) -> Sequence[PartDelivery]:
    try:
        return redelivery.deliver(number, LocalEngine(memory_bytes=redelivery.target.pipeline.shuffle.memory_bytes))
    except IcefloeError as error:
        if redelivery.source.backfill_id is not None:
            raise
        rest = f"{number}-{last}" if last > number else str(number)
        raise error.restated(f"batch {number}: {error.sentence}; go on with --batches {rest}") from error


def _counts(number: int, found: Sequence[PartDelivery]) -> dict[str, int]:
    return {"batch": number, **{name: sum(getattr(each, name) for each in found) for name in _COUNTS}}


def purge(arguments: Namespace, screen: Screen) -> None:
    """Counts old marks in the sink, asks, and removes them."""
    pipeline = load_named_pipeline(arguments)
    before = datetime.now(UTC) - timedelta(seconds=arguments.older_than)
    purged = 0
    with places_here(pipeline, command="purge").marked_sink() as sink:
        if sink is None:
            raise UsageError(
                f"a sink of type {pipeline.sink.type} keeps no marks of deleted rows, or got no batch yet, so there is "
                "nothing to purge",
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
    screen.answer({"pipeline": pipeline.name, "found": found, "purged": purged})


def sweep(arguments: Namespace, screen: Screen) -> None:
    """Deletes leftovers after a question; fails if it could not judge or delete one."""
    with screen.under_way("looking"):
        survey = survey_storage(
            arguments.storage,
            older_than_seconds=arguments.older_than,
            credentials=Credentials.from_environment(os.environ).coordinated_by(
                arguments.coordination, arguments.storage
            ),
            environ=os.environ,
        )
    document: dict[str, Any] = {
        "storage": arguments.storage, "is_dry_run": arguments.dry_run,
        "leftovers": [each.as_document() for each in survey.leftovers], "notes": list(survey.notes),
    }  # fmt: skip
    if not survey.leftovers:
        screen.say("there is nothing to delete")
    screen.table(document["leftovers"], ("pipeline", "batch", "url", "files", "bytes", "because"))
    screen.facts({"notes": survey.notes})
    deleted, failures = 0, tuple[IcefloeError, ...]()
    objects, size_bytes = (sum(each[key] for each in document["leftovers"]) for key in ("files", "bytes"))
    question = f"delete {objects:,} files, {format_bytes(size_bytes)}?"
    # A sweep without leftovers asks nobody.
    if not arguments.dry_run and (not survey.leftovers or is_agreed(question, yes=arguments.yes)):
        with screen.under_way("deleting"):
            deleted, failures = survey.delete()
        screen.say(f"{deleted:,} files were deleted")
    problems = [problem.sentence for problem in (*survey.problems, *failures)]
    screen.answer({**document, "deleted_files": deleted, "problems": problems})
    survey.raise_problems(failures)


def node(arguments: Namespace, screen: Screen) -> None:
    """Serves until SIGTERM or SIGINT, or drains or refills this machine's folder."""
    config = load_node_config(arguments.config)
    if arguments.drain:
        files = config.kept_folder.drain()
        screen.say(
            f"nothing new is written to {config.address}; batches that are not committed yet need {files:,} files"
        )
        return
    if arguments.refill:
        config.kept_folder.refill()
        screen.say(f"tasks write to {config.address} again")
        return
    storages = expand([*config.storages], os.environ)
    if unset := next(filter(has_reference, storages), None):
        raise TerminalError(
            f"storages of {arguments.config} has {unset}, and that variable is not set here: set it for the node"
        )
    needed = partial(
        open_batches,
        storages=storages,
        credentials=Credentials.from_environment(os.environ),
        environ=os.environ,
    )
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        serve_node(config, stop, say=screen.say, open_batches=needed)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
