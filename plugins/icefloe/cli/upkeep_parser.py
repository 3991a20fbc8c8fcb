"""The arguments of commands that keep a deployment in order: they delete, serve, or move a pipeline by hand."""

from argparse import RawDescriptionHelpFormatter
from pathlib import Path

from icefloe.cli.shared_options import (
    EXIT_CODES,
    Commands,
    add_backfill,
    add_command,
    add_consent,
    add_json,
    add_verbose,
    age,
)


def add_upkeep(commands: Commands) -> None:
    """Adds these commands."""
    _add_purge(commands)
    _add_sweep(commands)
    _add_node(commands)
    _add_abandon(commands)
    _add_unpin(commands)
    _add_set_cursor(commands)
    _add_reset(commands)


def _add_sweep(commands: Commands) -> None:
    sweep = commands.add_parser(
        "sweep",
        help="delete the files that dead runs left",
        description="Deletes the files of batches that have ended, and old files of no batch, below `shuffle/` of a "
        "storage. Deletes the files at the sinks of its pipelines that no manifest names, too. Files of an open batch "
        "stay. Shows what it would delete, and asks.",
        epilog=f"example:\n  icefloe sweep s3://lake/icefloe --dry-run\n\n{EXIT_CODES}",
        formatter_class=RawDescriptionHelpFormatter,
    )
    sweep.add_argument("storage", metavar="STORAGE", help="the URL of a storage, as pipeline files name it")
    sweep.add_argument("--dry-run", action="store_true", help="only show what would be deleted")
    sweep.add_argument("--yes", action="store_true", help="do not ask")
    sweep.add_argument(
        "--older-than",
        type=age,
        default="7d",
        metavar="AGE",
        help="delete files of no known batch if they are older, by the clock of their store, such as 12h or 30d; "
        "default: %(default)s",
    )
    sweep.add_argument(
        "--forgotten",
        action="store_true",
        help="also delete the files of checkpoints that are gone, once all of them are older than that",
    )
    sweep.add_argument(
        "--coordination",
        metavar="TABLE",
        help="the table that coordinates the storage, such as dynamodb://icefloe, as pipeline files name it",
    )
    add_json(sweep)
    add_verbose(sweep)


def _add_node(commands: Commands) -> None:
    node = commands.add_parser(
        "node",
        help="serve the map outputs of this machine",
        description="Serves the folder of this machine to the tasks of pipelines with `transfer: nodes`, until it is "
        "stopped. Renewed certificates are used at once.",
        epilog=f"example:\n  icefloe node --config /etc/icefloe/node.yaml\n\n{EXIT_CODES}",
        formatter_class=RawDescriptionHelpFormatter,
    )
    node.add_argument("--config", type=Path, metavar="FILE", required=True, help="the configuration of this machine")
    action = node.add_mutually_exclusive_group()
    action.add_argument(
        "--drain",
        action="store_true",
        help="let tasks write nothing new here, and print the number of files that batches still need",
    )
    action.add_argument("--refill", action="store_true", help="let tasks write here again")
    add_verbose(node)


def _add_purge(commands: Commands) -> None:
    purge = add_command(
        commands,
        "purge",
        "remove the marks of deleted rows from a sink",
        "A sink with soft deletes keeps a mark for each deleted row, so that a late write cannot bring the row back. "
        "Removes old marks for good. Counts them, and asks. Batches from before that time must not be delivered once "
        "more to that sink afterwards.",
        "icefloe purge flights_search --older-than 30d --dry-run",
    )
    purge.add_argument(
        "--older-than", type=age, metavar="AGE", required=True, help="by the time of the commit, such as 12h or 30d"
    )
    add_consent(purge)
    add_json(purge)


def _add_abandon(commands: Commands) -> None:
    abandon = add_command(
        commands,
        "abandon",
        "give up an open batch",
        "Ends the open batch without changes, if readers have seen nothing of it. Its number is not used again, and "
        "the next batch begins where it began. A batch that readers see is recorded as done instead. Asks neither "
        "catalog nor table.",
        "icefloe abandon flights_changes --dry-run\n  icefloe abandon flights_changes --yes",
    )
    add_backfill(abandon)
    add_consent(abandon)
    add_json(abandon)


def _add_unpin(commands: Commands) -> None:
    unpin = add_command(
        commands,
        "unpin",
        "let the pinned snapshots of a pipeline go",
        "Drops the branch and the tags by which `pin: true` keeps snapshots from expiring, in one commit to the table. "
        "For a pipeline that is removed. Shows them, and asks.",
        "icefloe unpin flights_changes --dry-run",
    )
    add_consent(unpin)
    add_json(unpin)


def _add_set_cursor(commands: Commands) -> None:
    set_cursor = add_command(
        commands,
        "set-cursor",
        "begin the next batch after another snapshot",
        "Moves the cursor to a snapshot of the branch's history. Says how many commits and rows are skipped or "
        "delivered again, and asks.",
        "icefloe set-cursor flights_changes --snapshot-id 5781947118336215154 --dry-run",
    )
    set_cursor.add_argument(
        "--snapshot-id", type=int, metavar="N", required=True, help="the next batch begins after it"
    )
    add_consent(set_cursor)
    add_json(set_cursor)


def _add_reset(commands: Commands) -> None:
    reset = add_command(
        commands,
        "reset",
        "begin from scratch",
        "Gives up the cursor, so that the next batch begins as initial_load says, with the configuration and the table "
        "as they are now. Batch numbers go on.",
        "icefloe reset flights_changes --dry-run\n  icefloe reset flights_changes --yes",
    )
    add_consent(reset)
    add_json(reset)
