"""The arguments of every command."""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from functools import cache

from icefloe.cli.shared_options import (
    EXIT_CODES,
    Commands,
    add_backfill,
    add_command,
    add_engine,
    add_json,
    add_range,
    batch_numbers,
    positive,
)
from icefloe.cli.upkeep_parser import add_upkeep
from icefloe.version import VERSION


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
