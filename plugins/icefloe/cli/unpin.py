"""``icefloe unpin``: drop the branch and the tags by which a pipeline keeps snapshots."""

from argparse import Namespace

from icefloe.batch.open.pin import let_pins_go, pinned_refs
from icefloe.cli.changing_command import changing_command
from icefloe.cli.consent import is_agreed
from icefloe.cli.pipeline_session import open_session
from icefloe.cli.screen import Screen
from icefloe.pipeline.model import Pipeline
from icefloe.units import id_json


@changing_command
def unpin(pipeline: Pipeline, arguments: Namespace, screen: Screen) -> int:
    """Drops the pins of a pipeline in one commit to its table, after it has shown them and asked.

    Raises:
        UsageError: there is nobody to ask.
        TerminalError: the catalog does not allow it.
        TransientError: the catalog did not answer.
    """
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
    if arguments.json:
        screen.json({
            "pipeline": pipeline.name,
            "table": pipeline.table,
            "is_dropped": is_dropped,
            "pinned_snapshots": count,
            "pinned_up_to_snapshot_id": id_json(head_id),
        })  # fmt: skip
    return 0
