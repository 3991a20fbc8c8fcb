"""``icefloe reset``: begin a pipeline again."""

import json
from argparse import Namespace

from icefloe.batch.operations.cursor_move import complete_unfinished
from icefloe.batch.operations.pipeline_reset import PipelineReset
from icefloe.cli.changing_command import changing_command
from icefloe.cli.consent import is_agreed
from icefloe.cli.pipeline_session import open_session
from icefloe.cli.screen import Screen
from icefloe.cli.shown_values import id_text
from icefloe.pipeline.model import Pipeline
from icefloe.units import id_json


@changing_command
def reset(pipeline: Pipeline, arguments: Namespace, screen: Screen) -> int:
    """Gives up the cursor: the next batch begins with the initial load, and the numbers go on."""
    with screen.under_way("looking"):
        session = open_session(pipeline, command="reset")
        if not arguments.dry_run:
            complete_unfinished(session)
        found = PipelineReset.plan(session)
    outcome = None
    if found is None:
        screen.say(f"{pipeline.name}: the next batch begins from scratch already")
    else:
        screen.facts(_facts(pipeline.name, pipeline.initial_load, found))
        if not arguments.dry_run and is_agreed(f"Reset {pipeline.name}?", yes=arguments.yes):
            outcome = found.make(session).outcome
        screen.say(f"{pipeline.name}: {'the next batch begins from scratch' if outcome else 'nothing was changed'}")
    if arguments.json:
        cursor = None if found is None or found.cursor is None else found.cursor.snapshot_id
        screen.json(
            {
                "pipeline": pipeline.name,
                "batch": None if found is None else found.offset.batch_number,
                "outcome": outcome,
                "cursor_snapshot_id": id_json(cursor),
                "changed": [] if found is None else [key for key, _, _ in found.differences],
                "rows": None if found is None else found.rows,
            }
        )
    return 0


def _facts(name: str, initial_load: str, found: PipelineReset) -> list[tuple[str, str]]:
    number = found.offset.batch_number
    rows = "an unknown number of" if found.rows is None else f"{found.rows:,}"
    return [
        ("pipeline", name),
        ("cursor", "-" if found.cursor is None else id_text(found.cursor.snapshot_id)),
        *_given_up(found),
        *((f"changed {key}", f"was {json.dumps(was)}, is {json.dumps(now)}") for key, was, now in found.differences),
        ("next batch", f"{number + 1}, by initial_load: {initial_load}"),
        ("rows of the table", rows),
        ("readers", f"must drop the rows of all batches before {number}"),
    ]


def _given_up(found: PipelineReset) -> list[tuple[str, str]]:
    """The open batch that the reset gives up, if there is one."""
    if found.given_up is None:
        return []
    return [("open batch", f"{found.given_up.offset.batch_number}, half delivered: it is given up")]
