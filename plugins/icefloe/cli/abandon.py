"""``icefloe abandon``: give up an open batch, or record it as done if readers see it."""

from argparse import Namespace

from icefloe.batch.ends.empty_end import EmptyEnd
from icefloe.batch.operations.abandoned_batch import AbandonablePipeline, DeliveredEnd
from icefloe.checkpoint.cursor import BatchOutcome
from icefloe.cli.changing_command import changing_command
from icefloe.cli.consent import is_agreed
from icefloe.cli.pipeline_session import credentials_here, writer_here
from icefloe.cli.screen import Screen
from icefloe.cli.shown_values import id_text
from icefloe.pipeline.model import Pipeline
from icefloe.units import id_json


@changing_command
def abandon(pipeline: Pipeline, arguments: Namespace, screen: Screen) -> int:
    """Ends the open batch; if nothing of it was delivered, its number is never used again."""
    abandonable = AbandonablePipeline(
        pipeline=pipeline,
        credentials=credentials_here(pipeline),
        writer=writer_here("abandon"),
        backfill_id=arguments.backfill,
    )
    name = pipeline.name if arguments.backfill is None else f"backfill {arguments.backfill}"
    with screen.under_way("looking"):
        end = abandonable.find()
    outcome = None
    if end is None:
        screen.say(f"{name}: no batch is open")
    else:
        screen.facts(_facts(end, is_backfill=arguments.backfill is not None))
        if not arguments.dry_run and is_agreed(_question(name, end), yes=arguments.yes):
            outcome = _ended(abandonable, end)
        screen.say("nothing was changed" if outcome is None else _done_text(name, end, outcome))
    if arguments.json:
        screen.json(
            {
                "pipeline": abandonable.pipeline.name,
                "backfill_id": arguments.backfill,
                "batch": None if end is None else end.offset.batch_number,
                "outcome": outcome,
                "cursor_snapshot_id": None if end is None else id_json(_cursor_id(end)),
            }
        )
    return 0


def _ended(abandonable: AbandonablePipeline, end: EmptyEnd | DeliveredEnd) -> BatchOutcome:
    """Ends the batch, and returns how it ended: a run may have been faster."""
    if isinstance(end, EmptyEnd):
        return abandonable.abandon(end).outcome
    abandonable.record_as_done(end)
    return BatchOutcome.DELIVERED


def _question(name: str, end: EmptyEnd | DeliveredEnd) -> str:
    number = end.offset.batch_number
    if isinstance(end, EmptyEnd):
        return f"Abandon batch {number} of {name}?"
    return f"Batch {number} of {name} cannot be abandoned, because readers see it. Record it as done?"


def _cursor_id(end: EmptyEnd | DeliveredEnd) -> int | None:
    return end.cursor.snapshot_id if isinstance(end, EmptyEnd) else end.summary.up_to_snapshot_id


def _facts(end: EmptyEnd | DeliveredEnd, *, is_backfill: bool) -> list[tuple[str, str]]:
    opened = end.offset
    number = opened.batch_number + 1
    if isinstance(end, EmptyEnd):
        begins = "as the pipeline began" if end.cursor.is_beginning else f"after snapshot {id_text(_cursor_id(end))}"
        part = "" if end.cursor.load_part is None else f", {end.cursor.load_part} of its load delivered"
        delivered = "nothing"
    else:
        begins, part = f"after snapshot {id_text(_cursor_id(end))}", ""
        delivered = f"all {end.summary.rows:,} changes; only the record of it is missing"
    return [
        ("pipeline", end.pipeline),
        ("open batch", str(opened.batch_number)),
        ("after snapshot", id_text(opened.after_snapshot_id)),
        ("up to snapshot", id_text(opened.up_to_snapshot_id)),
        ("steps", f"{len(opened.steps):,}"),
        ("opened at", opened.opened_at),
        ("opened by", str(opened.opened_by)),
        ("delivered of it", delivered),
        (
            "next batch",
            f"{number}, if its range is started again" if is_backfill else f"{number}, which begins {begins}{part}",
        ),
    ]


def _done_text(name: str, end: EmptyEnd | DeliveredEnd, outcome: BatchOutcome) -> str:
    number = end.offset.batch_number
    if isinstance(end, DeliveredEnd):
        return f"{name}: batch {number} is recorded as done"
    if outcome is BatchOutcome.ABANDONED:
        return f"{name}: batch {number} is abandoned; tasks of it that still run stop by themselves"
    return f"{name}: batch {number} was not abandoned, because a run ended it first ({outcome})"
