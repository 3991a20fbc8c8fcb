"""The arguments of every command."""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from functools import cache
from pathlib import Path

from icefloe.cli.shared_options import (
    EXIT_CODES,
    Commands,
    add_backfill,
    add_command,
    add_consent,
    add_engine,
    add_json,
    add_range,
    add_verbose,
    age,
    batch_numbers,
    positive,
)
from icefloe.version import VERSION


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


# Parsing changes nothing in it, and making it takes longer than parsing: a process may run several commands.
@cache
def make_parser() -> ArgumentParser:
    """The parser; ``command`` in its result is the command's name."""
    parser = ArgumentParser(
        prog="icefloe",
        description="Row-level changes of Apache Iceberg tables.",
        epilog=EXIT_CODES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"icefloe {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_run(commands)
    _add_plan(commands)
    _add_status(commands)
    _add_batches(commands)
    _add_show(commands)
    _add_verify(commands)
    _add_trace(commands)
    _add_validate(commands)
    _add_deliver(commands)
    add_upkeep(commands)
    return parser


def _add_run(commands: Commands) -> None:
    run = add_command(
        commands,
        "run",
        "deliver one batch, without Airflow",
        "Resumes the open batch, otherwise delivers the next one; with a range, delivers a backfill of it. The last "
        "line on standard output is one JSON object.",
        "icefloe run flights_changes --engine local\n  icefloe run flights_changes --after-timestamp 2026-01-01T00:00Z",
    )
    add_range(run)
    add_engine(run)
    run.add_argument("--json", action="store_true", help="print only that line")
    run.add_argument(
        "--take-over", action="store_true", help="become the owner of the checkpoint in place of the present one"
    )


def _add_plan(commands: Commands) -> None:
    plan = add_command(
        commands,
        "plan",
        "show the input and the size of the next batch",
        "Steps, files, rows, bytes and route of the batch that `run` would deliver. Touches nothing.",
        "icefloe plan flights_changes",
    )
    add_range(plan)
    add_engine(plan)
    add_json(plan)


def _add_status(commands: Commands) -> None:
    status = add_command(
        commands,
        "status",
        "cursor, head, lag and open batch",
        "Shows how far the pipeline is behind its table.",
        "icefloe status flights_changes --json",
    )
    add_json(status)


def _add_batches(commands: Commands) -> None:
    batches = add_command(
        commands,
        "batches",
        "the last batches, newest first",
        "Lists the changes and the duration of each of the last batches. Asks neither catalog nor table.",
        "icefloe batches flights_changes\n  icefloe batches flights_changes --limit 100 --json",
    )
    batches.add_argument("--limit", type=positive, default=20, metavar="N", help="how many; default: %(default)s")
    add_backfill(batches)
    add_json(batches)


def _add_show(commands: Commands) -> None:
    show = add_command(
        commands,
        "show",
        "everything that is known of one batch",
        "Shows the report of a batch: its input and changes, the time of each phase, and the spread of bytes and "
        "times over its tasks. Asks neither catalog nor table.",
        "icefloe show flights_changes\n  icefloe show flights_changes --batch 41 --json",
    )
    show.add_argument("--batch", type=int, metavar="N", help="its number; default: the latest")
    add_backfill(show)
    add_json(show)


def _add_verify(commands: Commands) -> None:
    verify = add_command(
        commands,
        "verify",
        "replay the delivered changes and compare with the table",
        "Files: replays every delivered change on the start state and compares the rows with the end state. "
        "Other sinks: reads back what the sink holds and compares it with the table, key by key.",
        "icefloe verify flights_changes",
    )
    verify.add_argument(
        "--sample", type=positive, metavar="N", help="compare N rows, chosen at random (not for sink.type files)"
    )
    add_json(verify)


def _add_trace(commands: Commands) -> None:
    trace = add_command(
        commands,
        "trace",
        "what became of one row: commits, batches, changes, and the row in the sink",
        "Reads the changes that are kept; others are computed again from the table's history.",
        "icefloe trace flights_changes flight_id=4711",
    )
    trace.add_argument("key", nargs="+", metavar="COLUMN=VALUE", help="the value of each identifier column")
    add_json(trace)


def _add_validate(commands: Commands) -> None:
    validate = add_command(
        commands,
        "validate",
        "check the file, the catalog, the table, the storage and the sink",
        "Changes nothing; the storage and the sink are tried with an object that is deleted at once.",
        "icefloe validate dags/pipelines/flights_changes.yaml",
    )
    add_json(validate)


def _add_deliver(commands: Commands) -> None:
    deliver = add_command(
        commands,
        "deliver",
        "deliver committed batches once more",
        "Delivers batches that are committed and still staged, or that the files sink holds, to a sink: a new index, "
        "a lost topic. What the sink holds of them already is not delivered twice. The cursor does not move, and the "
        "catalog is not asked.",
        "icefloe deliver flights_changes --batches 0-41 --sink new_index.yaml\n"
        "  icefloe deliver flights_changes --backfill 6f1c --sink index.yaml\n"
        "  icefloe deliver flights_search --dead-letters --dry-run",
    )
    deliver.add_argument(
        "--sink", metavar="FILE", help="a YAML file with the key `sink`; without it, the sink of the pipeline"
    )
    deliver.add_argument("--batches", type=batch_numbers, metavar="A-B", help="their numbers, such as 0-41 or 7")
    deliver.add_argument(
        "--dead-letters",
        action="store_true",
        help="send what the sink refused for good again; what it takes leaves the folder of dead letters",
    )
    deliver.add_argument("--dry-run", action="store_true", help="with --dead-letters: only count them")
    add_backfill(deliver)
    add_json(deliver)
