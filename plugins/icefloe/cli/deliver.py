"""``icefloe deliver``: batches that are committed, delivered once more."""

import os
from argparse import Namespace
from collections.abc import Sequence
from typing import Final

from icefloe.batch.operations.delivered_again import Redelivery
from icefloe.cli.changing_command import changing_command
from icefloe.cli.pipeline_session import credentials_here, open_checkpoint
from icefloe.cli.screen import Screen
from icefloe.engines.local import LocalEngine
from icefloe.errors import IcefloeError, UsageError
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.nested_places import refuse_nested_places
from icefloe.pipeline.pipeline_file import with_sink_of
from icefloe.pipeline.unbuilt_keys import refuse_unbuilt
from icefloe.sinks.sink import PartDelivery
from icefloe.units import format_bytes

_KEYS: Final = {"there before": "repeated", "dead letters": "dead_letters"}
_COLUMNS: Final = ("batch", "documents", "there before", "superseded", "dead letters", "sent")


@changing_command
def deliver(pipeline: Pipeline, arguments: Namespace, screen: Screen) -> int:
    """Delivers batches in the order of their numbers; ends at the first that fails, and says where to go on."""
    redelivery = _redelivery(pipeline, arguments)
    if arguments.dead_letters:
        return _send_letters(redelivery, arguments, screen)
    if arguments.dry_run:
        raise UsageError("--dry-run shows dead letters: add --dead-letters, or leave it out")
    with screen.under_way("looking"):
        asked = redelivery.batches(arguments.batches)
        if asked is None:
            raise UsageError("which batches? give --batches A-B, or --backfill ID")
        url = redelivery.url()
        kept = redelivery.kept
        numbers = kept.check(asked)
        shown = kept.show_ends(asked)
    rows, documents = [], []
    for number in numbers:
        with screen.under_way(f"batch {number}"):
            found = _delivered(redelivery, number, last=asked[-1])
        rows.append(_row(number, found))
        documents.append(_document(number, found))
    for number in shown:
        screen.say(f"batch {number} has no changes there: its manifest was missing, and is in {url} now")
    if rows:
        screen.table(_COLUMNS, rows, numbers=_COLUMNS)
    elif not shown:
        screen.say("none of these batches changed anything")
    if arguments.json:
        screen.json({"pipeline": redelivery.pipeline.name, "url": url, "batches": documents})
    return 0


def _send_letters(redelivery: Redelivery, arguments: Namespace, screen: Screen) -> int:
    """Sends dead letters again, batch by batch, and says how many stay."""
    with screen.under_way("looking"):
        url = redelivery.url(is_checked=not arguments.dry_run)
        letters = redelivery.letters.counts(redelivery.batches(arguments.batches))
    documents = []
    for number, count in letters.items():
        if arguments.dry_run:
            documents.append({"batch": number, "dead_letters": count})
            continue
        with screen.under_way(f"dead letters of batch {number}"):
            documents.append(_document(number, redelivery.letters.send(number)))
    columns = ("batch", "dead letters") if arguments.dry_run else _COLUMNS[:-1]
    rows = [tuple(f"{document.get(_KEYS.get(name, name)):,}" for name in columns) for document in documents]
    if rows:
        screen.table(columns, rows, numbers=columns)
    else:
        screen.say("there are no dead letters of these batches")
    if arguments.json:
        screen.json({"pipeline": redelivery.pipeline.name, "url": url, "batches": documents})
    return 0


def _redelivery(pipeline: Pipeline, arguments: Namespace) -> Redelivery:
    target = pipeline
    if arguments.sink is not None:
        target = with_sink_of(pipeline, arguments.sink, environ=os.environ)
        refuse_unbuilt(target)
        refuse_nested_places(target)
    return Redelivery(
        pipeline=pipeline,
        target=target,
        credentials=credentials_here(target),
        checkpoint=open_checkpoint(pipeline, backfill_id=arguments.backfill),
        backfill_id=arguments.backfill,
    )


def _delivered(redelivery: Redelivery, number: int, *, last: int) -> Sequence[PartDelivery]:
    try:
        return redelivery.deliver(number, LocalEngine(memory_bytes=redelivery.pipeline.shuffle.memory_bytes))
    except IcefloeError as error:
        if redelivery.backfill_id is not None:
            raise
        rest = f"{number}-{last}" if last > number else str(number)
        raise error.restated(f"batch {number}: {error.sentence}; go on with --batches {rest}") from error


def _row(number: int, found: Sequence[PartDelivery]) -> tuple[str, ...]:
    document = _document(number, found)
    sent = format_bytes(sum(each.bytes for each in found))
    names = ("batch", "documents", "repeated", "superseded", "dead_letters")
    return (*(f"{document[name]:,}" for name in names), sent)


def _document(number: int, found: Sequence[PartDelivery]) -> dict[str, int]:
    return {
        "batch": number,
        "documents": sum(each.documents for each in found),
        "repeated": sum(each.repeated for each in found),
        "superseded": sum(each.superseded for each in found),
        "dead_letters": sum(each.dead_letters for each in found),
        "bytes": sum(each.bytes for each in found),
    }
