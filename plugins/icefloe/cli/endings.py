"""Commands that give up: ``abandon``, ``set-cursor``, ``reset`` and ``unpin``. Each shows its changes, and asks."""

import json
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict

from icefloe.batch.context.end_batch import BatchEnd
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.pin import let_pins_go, pinned_refs
from icefloe.batch.upkeep.abandoned_batch import end_open_batch, find_end
from icefloe.batch.upkeep.cursor_moves import CursorChange, PipelineReset, complete_unfinished
from icefloe.checkpoint.records import BatchOutcome
from icefloe.cli.pipeline_session import changing_command, open_session, places_here
from icefloe.cli.screen import Screen, id_text, is_agreed
from icefloe.iceberg.history.history import Commits
from icefloe.pipeline.model import Pipeline
from icefloe.units import id_json


@changing_command
def abandon(pipeline: Pipeline, arguments: Namespace, screen: Screen) -> None:
    """Ends the open batch; if nothing was delivered, its number is never used again."""
    places = places_here(pipeline, backfill_id=arguments.backfill, command="abandon")
    name = pipeline.name if arguments.backfill is None else f"backfill {arguments.backfill}"
    with screen.under_way("looking"):
        end = find_end(places)
    outcome = None
    if end is None:
        screen.say(f"{name}: no batch is open")
    else:
        screen.facts(_abandon_facts(end, is_backfill=arguments.backfill is not None))
        number = end.offset.batch_number
        question = f"Abandon batch {number} of {name}?"
        if end.delivered is not None:
            question = f"Batch {number} of {name} cannot be abandoned, because readers see it. Record it as done?"
        if _is_wanted(question, arguments):
            outcome = end_open_batch(end)
        if outcome is None:
            done = "nothing was changed"
        elif outcome is BatchOutcome.ABANDONED:
            done = f"{name}: batch {number} is abandoned; tasks of it that still run stop by themselves"
        elif end.delivered is not None:
            done = f"{name}: batch {number} is recorded as done"
        else:
            done = f"{name}: batch {number} was not abandoned, because a run ended it first ({outcome})"
        screen.say(done)
    screen.answer({
        "pipeline": pipeline.name, "backfill_id": arguments.backfill,
        "batch": None if end is None else end.offset.batch_number, "outcome": outcome,
        "cursor_snapshot_id": None if end is None else id_json(end.ending.cursor.snapshot_id),
    })  # fmt: skip


def _is_wanted(question: str, arguments: Namespace) -> bool:
    return not arguments.dry_run and is_agreed(question, yes=arguments.yes)


def _abandon_facts(end: BatchEnd, *, is_backfill: bool) -> list[tuple[str, str]]:
    opened, cursor = end.offset, end.ending.cursor
    number, begins = opened.batch_number + 1, f"after snapshot {id_text(cursor.snapshot_id)}"
    if cursor.is_beginning:
        begins = "as the pipeline began"
    if cursor.load_part is not None:
        begins += f", {cursor.load_part} of its load delivered"
    delivered = "nothing"
    if end.delivered is not None:
        delivered = f"all {end.delivered.rows:,} changes; only the record of it is missing"
    return [
        ("pipeline", end.places.pipeline.name),
        ("open batch", str(opened.batch_number)),
        ("after snapshot", id_text(opened.after_snapshot_id)),
        ("up to snapshot", id_text(opened.up_to_snapshot_id)),
        ("steps", f"{len(opened.steps):,}"),
        ("opened at", opened.opened_at),
        ("opened by", str(opened.opened_by)),
        ("delivered of it", delivered),
        ("next batch", f"{number}, {'if its range is started again' if is_backfill else f'which begins {begins}'}"),
    ]


@changing_command
def set_cursor(pipeline: Pipeline, arguments: Namespace, screen: Screen) -> None:
    """Moves the cursor, after it has shown what is skipped or repeated."""
    session = _settled_session(pipeline, arguments, screen)
    with screen.under_way("looking"):
        change = CursorChange.plan(session, arguments.snapshot_id)
    name, outcome, distance = pipeline.name, None, None
    cursor_id: int | None = arguments.snapshot_id
    if change is None:
        screen.say(f"{name}: the cursor is at snapshot {arguments.snapshot_id} already")
    else:
        distance, cursor_id = change.distance, None if change.cursor is None else change.cursor.snapshot_id
        screen.facts(_cursor_facts(pipeline, change))
        if _is_wanted(f"Set the cursor of {name}?", arguments):
            outcome = change.make(session).outcome
        said = f"the cursor is at snapshot {arguments.snapshot_id}" if outcome else "nothing was changed"
        screen.say(f"{name}: {said}")
    screen.answer({
        "pipeline": name, "batch": None if change is None else change.offset.batch_number, "outcome": outcome,
        "cursor_snapshot_id": id_json(cursor_id), "new_cursor_snapshot_id": id_json(arguments.snapshot_id),
        "skipped": None if distance is None else asdict(distance.skipped),
        "repeated": None if distance is None else asdict(distance.repeated),
    })  # fmt: skip


def _settled_session(pipeline: Pipeline, arguments: Namespace, screen: Screen) -> PipelineSession:
    with screen.under_way("looking"):
        session = open_session(pipeline, command=arguments.command)
        if not arguments.dry_run:
            complete_unfinished(session)
    return session


def _cursor_facts(pipeline: Pipeline, change: CursorChange) -> list[tuple[str, str]]:
    cursor, distance = change.cursor, change.distance
    rows = [
        ("pipeline", pipeline.name),
        ("cursor", "-" if cursor is None else id_text(cursor.snapshot_id)),
        ("new cursor", id_text(change.offset.up_to_snapshot_id)),
        ("skipped", "not known: the cursor's snapshot expired" if distance is None else _commits(distance.skipped)),
        ("repeated", "not known" if distance is None else _commits(distance.repeated)),
    ]
    if change.breaks_load and cursor is not None:
        rows.append(("rest of the load", f"skipped: only {cursor.load_part} was delivered"))
    if pipeline.delivers and distance is not None and distance.skipped.snapshots and cursor is not None:
        came = "" if cursor.snapshot_id is None else f"set-cursor --snapshot-id {cursor.snapshot_id}, or "
        rows.append(("to get them later", f"{came}reset; this sink takes no backfill"))
    return rows


def _commits(commits: Commits) -> str:
    if not commits.snapshots:
        return "nothing"
    rows = "an unknown number of rows" if commits.rows is None else f"{commits.rows:,} rows in their files"
    return f"{commits.snapshots:,} commits, {rows}"


@changing_command
def reset(pipeline: Pipeline, arguments: Namespace, screen: Screen) -> None:
    """Gives up the cursor: the next batch begins with the initial load, under the next number."""
    session = _settled_session(pipeline, arguments, screen)
    with screen.under_way("looking"):
        found = PipelineReset.plan(session)
    outcome = cursor = None
    if found is None:
        screen.say(f"{pipeline.name}: the next batch begins from scratch already")
    else:
        cursor = None if found.cursor is None else found.cursor.snapshot_id
        screen.facts(_reset_facts(pipeline, found))
        if _is_wanted(f"Reset {pipeline.name}?", arguments):
            outcome = found.make(session).outcome
        screen.say(f"{pipeline.name}: {'the next batch begins from scratch' if outcome else 'nothing was changed'}")
    screen.answer({
        "pipeline": pipeline.name, "batch": None if found is None else found.offset.batch_number,
        "outcome": outcome, "cursor_snapshot_id": id_json(cursor),
        "changed": [] if found is None else [key for key, _, _ in found.differences],
        "rows": None if found is None else found.rows,
    })  # fmt: skip


def _reset_facts(pipeline: Pipeline, found: PipelineReset) -> Iterator[tuple[str, str]]:
    number = found.offset.batch_number
    yield "pipeline", pipeline.name
    yield "cursor", "-" if found.cursor is None else id_text(found.cursor.snapshot_id)
    if found.given_up is not None:
        yield "open batch", f"{found.given_up.offset.batch_number}, half delivered: it is given up"
    for key, was, now in found.differences:
        yield f"changed {key}", f"was {json.dumps(was)}, is {json.dumps(now)}"
    yield "next batch", f"{number + 1}, by initial_load: {pipeline.initial_load}"
    yield "rows of the table", "an unknown number of" if found.rows is None else f"{found.rows:,}"
    yield "readers", f"must drop the rows of all batches before {number}"


@changing_command
def unpin(pipeline: Pipeline, arguments: Namespace, screen: Screen) -> None:
    """Drops a pipeline's pins in one commit, after it has shown them and asked."""
    with screen.under_way("looking"):
        session = open_session(pipeline)
        view = session.checkpoint.look()
        found = pinned_refs(session.table, pipeline.name, view)
    count, head_id = (0, None) if found is None else (len(found.tagged), found.branch_head_id)
    shown = f"{count:,} tags and a branch of {pipeline.name} in table {pipeline.table}"
    is_dropped = False
    if found is None:
        screen.say(f"{pipeline.name}: nothing is pinned in table {pipeline.table}")
    elif arguments.dry_run:
        screen.say(f"would drop {shown}")
    elif is_agreed(f"drop {shown}?", yes=arguments.yes):
        with screen.under_way("committing"):
            let_pins_go(session.table, pipeline.name, view)
        is_dropped = True
        screen.say(f"dropped {shown}")
    if found is not None and pipeline.pin:
        screen.say(f"note: {pipeline.path} has pin: true, so its next run pins again")
    screen.answer({
        "pipeline": pipeline.name, "table": pipeline.table, "is_dropped": is_dropped, "pinned_snapshots": count,
        "pinned_up_to_snapshot_id": id_json(head_id),
    })  # fmt: skip
