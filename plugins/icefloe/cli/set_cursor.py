"""``icefloe set-cursor``: begin the next batch after another snapshot."""

from argparse import Namespace
from dataclasses import asdict

from icefloe.batch.operations.cursor_change import CursorChange
from icefloe.batch.operations.cursor_move import complete_unfinished, make_move
from icefloe.cli.changing_command import changing_command
from icefloe.cli.consent import is_agreed
from icefloe.cli.pipeline_session import open_session
from icefloe.cli.screen import Screen
from icefloe.cli.shown_values import id_text
from icefloe.iceberg.history.cursor_distance import Commits
from icefloe.pipeline.model import Pipeline
from icefloe.units import id_json


@changing_command
def set_cursor(pipeline: Pipeline, arguments: Namespace, screen: Screen) -> int:
    """Moves the cursor to a snapshot of the branch's history, and says before what is skipped or repeated."""
    with screen.under_way("looking"):
        session = open_session(pipeline, command="set-cursor")
        if not arguments.dry_run:
            complete_unfinished(session)
        change = CursorChange.plan(session, arguments.snapshot_id)
    name, outcome = pipeline.name, None
    if change is None:
        screen.say(f"{name}: the cursor is at snapshot {arguments.snapshot_id} already")
    else:
        screen.facts(_facts(pipeline, change))
        if not arguments.dry_run and is_agreed(f"Set the cursor of {name}?", yes=arguments.yes):
            outcome = make_move(session, change.offset).outcome
        said = f"the cursor is at snapshot {arguments.snapshot_id}" if outcome else "nothing was changed"
        screen.say(f"{name}: {said}")
    if arguments.json:
        screen.json(_document(name, arguments.snapshot_id, change, outcome))
    return 0


def _facts(pipeline: Pipeline, change: CursorChange) -> list[tuple[str, str]]:
    cursor, distance = change.cursor, change.distance
    rows = [
        ("pipeline", pipeline.name),
        ("cursor", "-" if cursor is None else id_text(cursor.snapshot_id)),
        ("new cursor", id_text(change.offset.up_to_snapshot_id)),
        (
            "skipped",
            "not known: the cursor's snapshot expired" if distance is None else _text(distance.skipped),
        ),
        ("repeated", "not known" if distance is None else _text(distance.repeated)),
    ]
    if change.breaks_load and cursor is not None:
        rows.append(("rest of the load", f"skipped: only {cursor.load_part} was delivered"))
    if pipeline.delivers and distance is not None and distance.skipped.snapshots and cursor is not None:
        came = "" if cursor.snapshot_id is None else f"set-cursor --snapshot-id {cursor.snapshot_id}, or "
        rows.append(("to get them later", f"{came}reset; this sink takes no backfill"))
    return rows


def _text(commits: Commits) -> str:
    if not commits.snapshots:
        return "nothing"
    rows = "an unknown number of rows" if commits.rows is None else f"{commits.rows:,} rows in their files"
    return f"{commits.snapshots:,} commits, {rows}"


def _document(name: str, snapshot_id: int, change: CursorChange | None, outcome: str | None) -> dict[str, object]:
    distance = None if change is None else change.distance
    cursor = None if change is None or change.cursor is None else change.cursor.snapshot_id
    return {
        "pipeline": name,
        "batch": None if change is None else change.offset.batch_number,
        "outcome": outcome,
        "cursor_snapshot_id": id_json(snapshot_id if change is None else cursor),
        "new_cursor_snapshot_id": id_json(snapshot_id),
        "skipped": None if distance is None else asdict(distance.skipped),
        "repeated": None if distance is None else asdict(distance.repeated),
    }
