"""The table of commands, and the parser made from it."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from icefloe.units import natural, parse_seconds
from icefloe.version import VERSION

if TYPE_CHECKING:
    from icefloe.cli.screen import Screen

_EXIT_CODES: Final = (
    "exit codes: 0 done, or nothing to do; 65 data that retrying cannot fix; 75 try again; 2 usage\n"
    "            141 the program that reads the output has ended\n"
    "PIPELINE is a path, or a name in dags/pipelines"
)
_LEAST_AGE_SECONDS: Final = 3_600


def batch_numbers(text: str) -> range:
    """The numbers of ``A-B``, both included, or of ``A``."""
    first, dash, last = text.partition("-")
    begin, end = natural(first), natural(last if dash else first)
    if begin is None or end is None:
        raise ArgumentTypeError(f"{text!r} is not a range of batches: expected numbers such as 0-41, or one such as 7")
    numbers = range(begin, end + 1)
    if not numbers:
        raise ArgumentTypeError(f"{text!r} ends before it begins: write {last}-{first}")
    return numbers


def positive(text: str) -> int:
    """A number from 1 on."""
    number = natural(text)
    if not number:
        raise ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return number


def age(text: str) -> float:
    """Seconds of an age of an hour or more."""
    try:
        seconds = parse_seconds(text)
    except ValueError as cause:
        raise ArgumentTypeError(str(cause)) from cause
    if seconds < _LEAST_AGE_SECONDS:
        raise ArgumentTypeError(f"{text!r} is less than an hour: a run that is at work may have younger files")
    return seconds


def timestamp(text: str) -> datetime:
    """A time with an offset."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise ArgumentTypeError(f"{text!r} is not a time with an offset, such as 2026-01-31T08:00Z or ...+01:00")
    return found


class _Argument(NamedTuple):
    """An argument of argparse; those with one word in ``group`` exclude each other."""

    names: tuple[str, ...]
    settings: Mapping[str, Any]
    group: str | None = None


def _option(*names: str, group: str | None = None, **settings: Any) -> _Argument:
    return _Argument(names, settings, group)


def _flag(name: str, help_text: str, group: str | None = None) -> _Argument:
    return _option(name, group=group, action="store_true", help=help_text)


_PIPELINE: Final = _option("pipeline", metavar="PIPELINE", help="a path, or a name in dags/pipelines")
_STORAGE: Final = _option("storage", metavar="STORAGE", help="the URL of a storage, as pipeline files name it")
_JSON: Final = _flag("--json", "print one JSON object alone")
_BACKFILL: Final = _option(
    "--backfill", metavar="ID", help="the id of a backfill, as printed by `run` and in the log of its plan"
)
_CONSENT: Final = (_flag("--yes", "do not ask"), _flag("--dry-run", "only show what would be done"))
_RANGE: Final = (
    _option("--after-snapshot-id", type=int, metavar="N", group="after", help="the range begins after this snapshot"),
    _option("--after-timestamp", type=timestamp, metavar="T", group="after", help="... or after the one current then"),
    _option("--up-to-snapshot-id", type=int, metavar="N", group="up to", help="the range ends with this snapshot"),
    _option("--up-to-timestamp", type=timestamp, metavar="T", group="up to", help="... or with the one current then"),
)
_ENGINE: Final = _option("--engine", choices=("local", "spark", "auto"), help="instead of the pipeline's: %(choices)s")
_VERBOSE: Final = _option("-v", "--verbose", action="store_true", help="show every decision, and tracebacks of errors")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A row of the table.

    Attributes:
        function: a module of this room and its function, imported when the command runs.
        subject: the first argument; None: the command serves, and has no answer to print as JSON.
        arguments: the others, without those that every command has.
    """

    name: str
    function: str
    help: str
    description: str
    example: tuple[str, ...]
    subject: _Argument | None = _PIPELINE
    arguments: tuple[_Argument, ...] = ()

    def load(self) -> "Callable[[Namespace, Screen], int | None]":
        """The function, imported here for fast help and completion."""
        module, _, name = self.function.partition(":")
        function: Callable[[Namespace, Screen], int | None] = getattr(import_module(f"icefloe.cli.{module}"), name)
        return function

    def add_to(self, commands: Any) -> None:
        """Adds the parser of its arguments."""
        examples = "\n".join(f"  icefloe {self.name} {line}" for line in self.example)
        parser = commands.add_parser(
            self.name,
            help=self.help,
            description=self.description,
            epilog=f"example:\n{examples}\n\n{_EXIT_CODES}",
            formatter_class=RawDescriptionHelpFormatter,
        )
        groups: dict[str | None, Any] = {None: parser}
        of_subject = () if self.subject is None else (self.subject, _JSON)
        for each in (*of_subject, *self.arguments, _VERBOSE):
            if each.group not in groups:
                groups[each.group] = parser.add_mutually_exclusive_group()
            groups[each.group].add_argument(*each.names, **each.settings)


COMMANDS: Final = (
    Command(
        name="run", function="run:run", help="deliver one batch, without Airflow",
        description="Resumes the open batch, otherwise delivers the next one; with a range, delivers a backfill of it. "
        "The last line on standard output is one JSON object.",
        example=("flights_changes --engine local", "flights_changes --after-timestamp 2026-01-01T00:00Z"),
        arguments=(
            *_RANGE,
            _ENGINE,
            _flag("--take-over", "become the owner of the checkpoint in place of the present one"),
        ),
    ),
    Command(
        name="plan", function="run:plan", help="show the input and the size of the next batch",
        description="Steps, files, rows, bytes and route of the batch that `run` would deliver. Touches nothing.",
        example=("flights_changes", "flights_changes --partitions --json"),
        arguments=(*_RANGE, _ENGINE, _flag("--partitions", "list the table's partitions that may have changes")),
    ),
    Command(
        name="status", function="reports:status", help="cursor, head, lag and open batch",
        description="Shows how far the pipeline is behind its table.",
        example=("flights_changes --json",),
    ),
    Command(
        name="batches", function="reports:batches", help="the last batches, newest first",
        description="Lists the changes and the duration of each of the last batches. Asks neither catalog nor table.",
        example=("flights_changes", "flights_changes --limit 100 --json"),
        arguments=(
            _option("--limit", type=positive, default=20, metavar="N", help="how many; default: %(default)s"),
            _BACKFILL,
        ),
    ),
    Command(
        name="show", function="reports:show", help="everything that is known of one batch",
        description="Shows the report of a batch: its input and changes, the time of each phase, and the spread of "
        "bytes and times over its tasks. Asks neither catalog nor table.",
        example=("flights_changes", "flights_changes --batch 41 --json"),
        arguments=(_option("--batch", type=int, metavar="N", help="its number; default: the latest"), _BACKFILL),
    ),
    Command(
        name="verify", function="checks:verify", help="replay the delivered changes and compare with the table",
        description="Files: replays every delivered change on the start state and compares the rows with the end "
        "state. Other sinks: reads back what the sink holds and compares it with the table, key by key.",
        example=("flights_changes",),
        arguments=(
            _option("--from", type=int, dest="first", metavar="KEY", help="of a table: leave out smaller keys"),
        ),
    ),
    Command(
        name="trace", function="trace:trace",
        help="what became of one row: commits, batches, changes, and the row in the sink",
        description="Reads the changes that are kept; others are computed again from the table's history.",
        example=("flights_changes flight_id=4711",),
        arguments=(_option("key", nargs="+", metavar="COLUMN=VALUE", help="the value of each identifier column"),),
    ),
    Command(
        name="validate", function="checks:validate",
        help="check the file, the catalog, the table, the storage and the sink",
        description="Changes nothing; the storage and the sink are tried with an object that is deleted at once.",
        example=("dags/pipelines/flights_changes.yaml",),
    ),
    Command(
        name="deliver", function="upkeep:deliver", help="deliver committed batches once more",
        description="Delivers batches that are committed and still staged, or that the files sink holds, to a sink: a "
        "new index, a lost topic. What the sink holds of them already is not delivered twice. The cursor does not "
        "move, and the catalog is not asked.",
        example=(
            "flights_changes --batches 0-41 --sink new_index.yaml",
            "flights_changes --backfill 6f1c --sink index.yaml",
        ),
        arguments=(
            _option("--sink", metavar="FILE",
                help="a YAML file with the key `sink`; without it, the sink of the pipeline"),
            _option("--batches", type=batch_numbers, metavar="A-B", help="their numbers, such as 0-41 or 7"),
            _BACKFILL,
        ),
    ),
    Command(
        name="purge", function="upkeep:purge", help="remove the marks of deleted rows from a sink",
        description="A sink with soft deletes keeps a mark for each deleted row, so that a late write cannot bring the "
        "row back. Removes old marks for good. Counts them, and asks. Batches from before that time must not be "
        "delivered once more to that sink afterwards.",
        example=("flights_search --older-than 30d --dry-run",),
        arguments=(
            _option("--older-than", type=age, metavar="AGE", required=True,
                help="by the time of the commit, such as 12h or 30d"),
            *_CONSENT,
        ),
    ),
    Command(
        name="sweep", function="upkeep:sweep", help="delete the files that dead runs left",
        description="Deletes the files of batches that have ended, and old files of no batch, below `shuffle/` of a "
        "storage. Deletes the files at the sinks of its pipelines that no manifest names, too. Files of an open batch "
        "stay. Shows what it would delete, and asks.",
        example=("s3://lake/icefloe --dry-run",),
        subject=_STORAGE,
        arguments=(
            *_CONSENT,
            _option(
                "--older-than",
                type=age,
                default="7d",
                metavar="AGE",
                help="delete files of no known batch if they are older, by the clock of their store, such as 12h or "
                "30d; default: %(default)s",
            ),
            _option("--coordination", metavar="TABLE",
                help="the table that coordinates the storage, such as dynamodb://icefloe, as pipeline files name it"),
        ),
    ),
    Command(
        name="node", function="upkeep:node", help="serve the map outputs of this machine",
        description="Serves the folder of this machine to the tasks of pipelines with `transfer: nodes`, until it is "
        "stopped. Renewed certificates are used at once.",
        example=("--config /etc/icefloe/node.yaml",),
        subject=None,
        arguments=(
            _option("--config", type=Path, metavar="FILE", required=True, help="the configuration of this machine"),
            _flag(
                "--drain",
                "let tasks write nothing new here, and print the number of files that batches still need",
                group="action",
            ),
            _flag("--refill", "let tasks write here again", group="action"),
        ),
    ),
    Command(
        name="abandon", function="endings:abandon", help="give up an open batch",
        description="Ends the open batch without changes, if readers have seen nothing of it. Its number is not used "
        "again, and the next batch begins where it began. A batch that readers see is recorded as done instead. Asks "
        "neither catalog nor table.",
        example=("flights_changes --dry-run", "flights_changes --yes"),
        arguments=(_BACKFILL, *_CONSENT),
    ),
    Command(
        name="unpin", function="endings:unpin", help="let the pinned snapshots of a pipeline go",
        description="Drops the branch and the tags by which `pin: true` keeps snapshots from expiring, in one commit "
        "to the table. For a pipeline that is removed. Shows them, and asks.",
        example=("flights_changes --dry-run",),
        arguments=_CONSENT,
    ),
    Command(
        name="set-cursor", function="endings:set_cursor", help="begin the next batch after another snapshot",
        description="Moves the cursor to a snapshot of the branch's history. Says how many commits and rows are "
        "skipped or delivered again, and asks.",
        example=("flights_changes --snapshot-id 5781947118336215154 --dry-run",),
        arguments=(
            _option("--snapshot-id", type=int, metavar="N", required=True, help="the next batch begins after it"),
            *_CONSENT,
        ),
    ),
    Command(
        name="reset", function="endings:reset", help="begin from scratch",
        description="Gives up the cursor, so that the next batch begins as initial_load says, with the configuration "
        "and the table as they are now. Batch numbers go on.",
        example=("flights_changes --dry-run", "flights_changes --yes"),
        arguments=_CONSENT,
    ),
)  # fmt: skip


# Parsing changes nothing in it, and making it takes longer than parsing: a process may run several commands.
@cache
def make_parser() -> ArgumentParser:
    """The parser; ``command`` in its result is the name."""
    parser = ArgumentParser(
        prog="icefloe",
        description="Row-level changes of Apache Iceberg tables.",
        epilog=_EXIT_CODES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"icefloe {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for each in COMMANDS:
        each.add_to(commands)
    return parser
