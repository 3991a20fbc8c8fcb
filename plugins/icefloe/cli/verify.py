"""``icefloe verify``: replay the delivered changes and compare with the table."""

from argparse import Namespace

from icefloe.batch.verify.replay_batches import verify_batches as replay
from icefloe.cli.pipeline_session import load_named_pipeline, open_session
from icefloe.cli.screen import Screen
from icefloe.errors import TerminalError


def verify(arguments: Namespace, screen: Screen) -> int:
    """Proves that the delivered changes lead from the start state to the end state.

    Raises:
        TerminalError: they do not.
    """
    with screen.under_way("replaying the delivered changes"):
        session = open_session(load_named_pipeline(arguments))
        found = replay(session)
    for note in found.notes:
        screen.say(f"note: {note}")
    if not found.is_equal:
        raise TerminalError("\n".join(found.sentences), sentences=found.sentences)
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
