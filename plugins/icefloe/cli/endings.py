"""Commands that give up: ``abandon``, ``set-cursor``, ``reset`` and ``unpin``. Each shows its changes, and asks."""

import json
from argparse import Namespace
from dataclasses import asdict

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.upkeep.abandoned_batch import AbandonedBatch
from icefloe.batch.upkeep.cursor_moves import CursorMove
from icefloe.checkpoint.records import BatchOutcome
from icefloe.cli.pipeline_session import load_named_pipeline, open_session, places_here
from icefloe.cli.screen import Screen, is_agreed
from icefloe.iceberg.history.pins import PipelinePins
from icefloe.pipeline.model import Pipeline
from icefloe.units import id_json


def abandon(arguments: Namespace, screen: Screen) -> None:
    """Ends the open batch; if nothing was delivered, its number is never used again."""
    pipeline = load_named_pipeline(arguments)
    places = places_here(pipeline, backfill_id=arguments.backfill, command="abandon")
    name = pipeline.name if arguments.backfill is None else f"backfill {arguments.backfill}"
    with screen.under_way("looking"):
        end = AbandonedBatch.find(places)
    document: dict[str, object] = {
        "pipeline": pipeline.name, "backfill_id": arguments.backfill, "batch": None, "cursor_snapshot_id": None,
    }  # fmt: skip
    outcome = None
    if end is None:
        screen.say(f"{name}: no batch is open")
    else:
        document |= _end_document(end)
        screen.facts(document)
        number = end.offset.batch_number
        question = f"Abandon batch {number} of {name}?"
        if end.delivered is not None:
            question = f"Batch {number} of {name} cannot be abandoned, because readers see it. Record it as done?"
        if _is_wanted(question, arguments):
            outcome = end.make()
        if outcome is None:
            done = "nothing was changed"
        elif outcome is BatchOutcome.ABANDONED:
            done = f"{name}: batch {number} is abandoned; tasks of it that still run stop by themselves"
        elif end.delivered is not None:
            done = f"{name}: batch {number} is recorded as done"
        else:
            done = f"{name}: batch {number} was not abandoned, because a run ended it first ({outcome})"
        screen.say(done)
    screen.answer({**document, "outcome": outcome})


def _is_wanted(question: str, arguments: Namespace) -> bool:
    return not arguments.dry_run and is_agreed(question, yes=arguments.yes)


def _end_document(end: AbandonedBatch) -> dict[str, object]:
    """The open batch, and the cursor from which the next one begins."""
    opened, cursor = end.offset, end.ending.cursor
    return {
        "batch": opened.batch_number,
        "after_snapshot_id": id_json(opened.spec.after_snapshot_id),
        "up_to_snapshot_id": id_json(opened.spec.up_to_snapshot_id),
        "steps": len(opened.spec.steps),
        "opened_at": opened.opened_at,
        "opened_by": str(opened.opened_by),
        "delivered": "nothing" if end.delivered is None else "all changes; only the record of it is missing",
        "cursor_snapshot_id": id_json(cursor.snapshot_id),
        "load_delivered": None if cursor.load_part is None else str(cursor.load_part),
        "next_batch": opened.batch_number + 1,
    }


def set_cursor(arguments: Namespace, screen: Screen) -> None:
    """Moves the cursor, after it has shown what is skipped or repeated."""
    pipeline = load_named_pipeline(arguments)
    session = _settled_session(pipeline, arguments, screen)
    with screen.under_way("looking"):
        change = CursorMove.to(session, arguments.snapshot_id)
    name, outcome = pipeline.name, None
    document: dict[str, object] = {
        "pipeline": name, "batch": None, "cursor_snapshot_id": str(arguments.snapshot_id),
        "new_cursor_snapshot_id": str(arguments.snapshot_id), "skipped": None, "repeated": None,
    }  # fmt: skip
    if change is None:
        screen.say(f"{name}: the cursor is at snapshot {arguments.snapshot_id} already")
    else:
        document |= _move_document(pipeline, change)
        screen.facts(document)
        if _is_wanted(f"Set the cursor of {name}?", arguments):
            outcome = change.make(session)
        said = f"the cursor is at snapshot {arguments.snapshot_id}" if outcome else "nothing was changed"
        screen.say(f"{name}: {said}")
    screen.answer({**document, "outcome": outcome})


def _move_document(pipeline: Pipeline, change: CursorMove) -> dict[str, object]:
    """``skipped`` and ``repeated`` are None if the cursor's snapshot expired; their rows, if no summary says them."""
    cursor, distance, notes = change.cursor, change.distance, []
    if cursor is not None and cursor.load_part is not None:
        notes.append(f"the rest of the load is skipped: only {cursor.load_part} was delivered")
    if pipeline.delivers and distance is not None and distance.skipped.snapshots and cursor is not None:
        came = "" if cursor.snapshot_id is None else f"set-cursor --snapshot-id {cursor.snapshot_id}, or "
        notes.append(f"to get the skipped commits later: {came}reset; this sink takes no backfill")
    return {
        "batch": change.offset.batch_number,
        "cursor_snapshot_id": None if cursor is None else id_json(cursor.snapshot_id),
        "skipped": None if distance is None else asdict(distance.skipped),
        "repeated": None if distance is None else asdict(distance.repeated),
        "notes": notes,
    }


def _settled_session(pipeline: Pipeline, arguments: Namespace, screen: Screen) -> PipelineSession:
    with screen.under_way("looking"):
        session = open_session(pipeline, command=arguments.command)
        if not arguments.dry_run:
            CursorMove.complete_unfinished(session)
    return session


def reset(arguments: Namespace, screen: Screen) -> None:
    """Gives up the cursor: the next batch begins with the initial load, under the next number."""
    pipeline = load_named_pipeline(arguments)
    session = _settled_session(pipeline, arguments, screen)
    with screen.under_way("looking"):
        found = CursorMove.reset(session)
    outcome = None
    document: dict[str, object] = {
        "pipeline": pipeline.name, "batch": None, "cursor_snapshot_id": None, "changed": [], "rows": None,
    }  # fmt: skip
    if found is None:
        screen.say(f"{pipeline.name}: the next batch begins from scratch already")
    else:
        document |= _reset_document(pipeline, found)
        screen.facts(document)
        if _is_wanted(f"Reset {pipeline.name}?", arguments):
            outcome = found.make(session)
        screen.say(f"{pipeline.name}: {'the next batch begins from scratch' if outcome else 'nothing was changed'}")
    screen.answer({**document, "outcome": outcome})


def _reset_document(pipeline: Pipeline, found: CursorMove) -> dict[str, object]:
    number = found.offset.batch_number
    notes = [f"{key} was {json.dumps(was)}, and is {json.dumps(now)}" for key, was, now in found.differences]
    if found.given_up is not None:
        notes.append(f"batch {found.given_up.offset.batch_number}, half delivered, is given up")
    return {
        "batch": number,
        "cursor_snapshot_id": None if found.cursor is None else id_json(found.cursor.snapshot_id),
        "changed": [key for key, _, _ in found.differences],
        "rows": found.rows,
        "next_batch": number + 1,
        "initial_load": pipeline.initial_load,
        "notes": [*notes, f"readers must drop the rows of all batches before {number}"],
    }


def unpin(arguments: Namespace, screen: Screen) -> None:
    """Drops a pipeline's pins in one commit, after it has shown them and asked."""
    pipeline = load_named_pipeline(arguments)
    with screen.under_way("looking"):
        session = open_session(pipeline)
        found = PipelinePins.find(session.table.history, pipeline.name, session.checkpoint.look().checkpoint_id)
    count, head_id = (0, None) if found is None else (len(found.tagged), found.branch_head_id)
    shown = f"{count:,} tags and a branch of {pipeline.name} in table {pipeline.table}"
    is_dropped = False
    if found is None:
        screen.say(f"{pipeline.name}: nothing is pinned in table {pipeline.table}")
    elif arguments.dry_run:
        screen.say(f"would drop {shown}")
    elif is_agreed(f"drop {shown}?", yes=arguments.yes):
        with screen.under_way("committing"):
            found.drop(session.table.pyiceberg)
        is_dropped = True
        screen.say(f"dropped {shown}")
    if found is not None and pipeline.pin:
        screen.say(f"note: {pipeline.path} has pin: true, so its next run pins again")
    screen.answer({
        "pipeline": pipeline.name, "table": pipeline.table, "is_dropped": is_dropped, "pinned_snapshots": count,
        "pinned_up_to_snapshot_id": id_json(head_id),
    })  # fmt: skip
