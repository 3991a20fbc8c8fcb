"""``icefloe verify``: replay the delivered changes and compare with the table."""

from argparse import Namespace

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.batch.verify.verify_delivery import verify_delivery
from icefloe.cli.pipeline_session import load_named_pipeline, open_session
from icefloe.cli.screen import Screen
from icefloe.errors import TerminalError, UsageError
from icefloe.pipeline.error_lines import with_lines
from icefloe.sinks.sink import Sink


def verify(arguments: Namespace, screen: Screen) -> int:
    """Proves that the delivered changes lead from the start state to the end state.

    Raises:
        TerminalError: they do not.
    """
    session = open_session(load_named_pipeline(arguments))
    with session.delivery_sink() as sink:
        if sink is not None:
            return _compare(session, sink, arguments, screen)
    if arguments.sample is not None:
        raise UsageError(
            "--sample is for sinks that are read back by key; changes in files are always replayed as a whole"
        )
    return _replay(session, arguments, screen)


def _replay(session: PipelineSession, arguments: Namespace, screen: Screen) -> int:
    with screen.under_way("replaying the delivered changes"):
        found = verify_batches(session)
    for note in found.notes:
        screen.say(f"note: {note}")
    if not found.is_equal:
        raise TerminalError(*found.sentences, sentences=found.sentences)
    if arguments.json:
        counted = {"batches": found.batches, "changes": found.changes, "rows": found.rows}
        screen.json({"pipeline": session.pipeline.name, "table": session.pipeline.table, "is_equal": True, **counted})
    screen.say(
        f"{session.pipeline.name}: {found.changes:,} changes of {found.batches:,} batches lead to exactly the "
        f"{found.rows:,} rows of {session.pipeline.table}"
        if found.batches
        else f"{session.pipeline.name}: there is nothing delivered to replay yet"
    )
    return 0


def _compare(session: PipelineSession, sink: Sink, arguments: Namespace, screen: Screen) -> int:
    with screen.under_way(f"reading {sink.url} back"), with_lines(session.pipeline):
        found = verify_delivery(session, sink, sample=arguments.sample)
    for note in found.notes:
        screen.say(f"note: {note}")
    if arguments.json:
        screen.json(
            {
                "pipeline": session.pipeline.name,
                "table": session.pipeline.table,
                "sink": found.url,
                "snapshot_id": None if found.snapshot_id is None else str(found.snapshot_id),
                "is_equal": found.is_equal,
                "rows": found.rows,
                "counts": found.counts,
                "keys": found.keys,
                "notes": found.notes,
            }
        )
    if not found.is_equal:
        raise TerminalError(*found.sentences, sentences=found.sentences)
    if found.snapshot_id is not None:
        screen.say(
            f"{found.url} holds exactly the {found.rows:,} rows of {session.pipeline.table} that were compared"
            if found.rows or not found.uncompared
            else f"no row of {session.pipeline.table} was compared: {found.url} has no change of any of them"
        )
    return 0
