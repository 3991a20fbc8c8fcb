"""``icefloe status``: how far a pipeline is behind its table."""

from argparse import Namespace
from datetime import UTC, datetime

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.plan.batch_preview import next_plannable
from icefloe.batch.status.pin_facts import pins_of
from icefloe.batch.status.pipeline_status import PipelineStatus
from icefloe.batch.status.publish_status import load_status
from icefloe.batch.status.table_facts import TableFacts
from icefloe.checkpoint.cursor import Cursor
from icefloe.checkpoint.view import CheckpointView
from icefloe.cli.pipeline_session import TABLE_IS_MISSING, checkpoint_of, load_named_pipeline, open_session
from icefloe.cli.screen import Screen
from icefloe.errors import IcefloeError
from icefloe.iceberg.history.history import History
from icefloe.pipeline.model import Pipeline
from icefloe.units import id_json


def status(arguments: Namespace, screen: Screen) -> int:
    """Shows cursor, head, lag, open batch, and the trouble that stops ``run``; reads no rows, writes nothing.

    Trouble is reported, but it is no failure of this command: it exits 0. Neither is a missing table or branch that the
    pipeline waits for.
    """
    with screen.under_way("looking"):
        document = _document(load_named_pipeline(arguments))
    screen.facts((name.replace("_", " "), _text(value)) for name, value in document.items())
    if arguments.json:
        screen.json(document)
    return 0


def _document(pipeline: Pipeline) -> dict[str, object]:
    session, waits_for = _opened(pipeline)
    checkpoint = checkpoint_of(pipeline, backfill_id=None) if session is None else session.checkpoint
    view, known = checkpoint.look(), load_status(checkpoint)
    cursor, opened = view.cursor, view.opened
    cursor_id = None if cursor is None else cursor.snapshot_id
    loading = None if cursor is None else cursor.load_part
    facts = _table_facts(session if waits_for is None else None, cursor)
    return {
        "pipeline": pipeline.name,
        "table": pipeline.table,
        "branch": pipeline.branch,
        "last_batch": None if cursor is None else cursor.batch_number,
        "cursor_snapshot_id": id_json(cursor_id),
        "head_snapshot_id": id_json(facts.head_snapshot_id),
        "lag_snapshots": facts.lag_snapshots,
        "lag_rows": facts.lag_rows,
        "lag_seconds": _seconds(facts),
        "loaded_files": None if loading is None else loading.stop_file,
        "files_to_load": None if loading is None else loading.num_files,
        "open_batch": None if opened is None else opened.batch_number,
        "open_since": None if opened is None else opened.opened_at,
        "open_run": None if opened is None else opened.opened_by.run,
        "owner": None if view.owner is None else view.owner.writer.owner,
        "owner_since": None if view.owner is None else view.owner.since,
        "waits_for": waits_for,
        "trouble": None if session is None else _trouble(session),
        "last_failure": _last_failure(known),
        "cursor_expires_at": None if facts.next_expiry is None else facts.next_expiry.at,
        **_pins(pipeline.name, session, view),
        **(_sink(pipeline, known) if pipeline.delivers else {}),
    }


def _opened(pipeline: Pipeline) -> tuple[PipelineSession | None, str | None]:
    """The session, and the sentence of the missing table or branch that the pipeline waits for.

    There is no session without the table. The sentence is None if nothing is missing.
    """
    session = None
    try:
        session = open_session(pipeline)
        History.of(session.table).head(pipeline.branch)
    except TABLE_IS_MISSING as error:
        if pipeline.wait_for_table:
            return session, error.sentence
        raise
    return session, None


def _table_facts(session: PipelineSession | None, cursor: Cursor | None) -> TableFacts:
    """The facts of the table; None, all of them, without a session."""
    if session is None:
        return TableFacts(
            cursor_timestamp=None, head_snapshot_id=None, head_timestamp=None, lag_snapshots=None, lag_rows=None,
            waiting_since=None, next_expiry=None,
        )  # fmt: skip
    return TableFacts.of(
        session.table,
        branch=session.pipeline.branch,
        cursor_snapshot_id=None if cursor is None else cursor.snapshot_id,
        cursor_timestamp=None if cursor is None else cursor.timestamp,
        is_loading=cursor is not None and cursor.load_part is not None,
    )


def _sink(pipeline: Pipeline, known: PipelineStatus | None) -> dict[str, object]:
    """The sink, and the last batch that was delivered to it; None if there is none yet."""
    last = None if known is None else known.last_delivery
    return {
        "sink": pipeline.sink.type,
        "delivered_to": None if last is None else last.url,
        "documents": None if last is None else last.documents,
        "dead_letters": None if last is None else last.dead_letters,
        "visible_at": None if last is None else last.visible_at,
        "visible_after_seconds": None if last is None or last.lag_seconds is None else round(last.lag_seconds, 3),
    }


def _trouble(session: PipelineSession) -> str | None:
    """The reason why no batch can be opened or resumed; None if one can, or if there is nothing to do."""
    try:
        next_plannable(session)
    except IcefloeError as error:
        is_awaited = session.pipeline.wait_for_table and isinstance(error, TABLE_IS_MISSING)
        return None if is_awaited else error.sentence
    return None


def _last_failure(known: PipelineStatus | None) -> str | None:
    """The last failure of a task; None if there is none, or if a task has succeeded since."""
    trouble = None if known is None else known.trouble
    return None if trouble is None else f"{trouble.at} {trouble.phase}: {trouble.sentence}"


def _pins(pipeline: str, session: PipelineSession | None, view: CheckpointView) -> dict[str, object]:
    pins = None if session is None else pins_of(session.table, pipeline, view)
    return {
        "pin_branch": None if pins is None else pins.branch,
        "oldest_pinned_at": None if pins is None else pins.oldest_at,
        "pinned_snapshots": 0 if pins is None else pins.snapshots,
        "pinned_up_to_snapshot_id": id_json(None if pins is None else pins.up_to_snapshot_id),
    }


def _seconds(facts: TableFacts) -> float | None:
    """Seconds that the oldest waiting snapshot has waited; None if the cursor is not in the branch's history."""
    if facts.waiting_since is None:
        return 0.0 if facts.lag_snapshots == 0 else None
    waited = datetime.now(UTC) - datetime.fromisoformat(facts.waiting_since)
    return round(max(0.0, waited.total_seconds()), 3)


def _text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)
