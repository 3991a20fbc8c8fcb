"""Options that several commands share, and how their values are read."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Sequence
from datetime import datetime
from typing import Final, TypeAlias

from icefloe.units import natural, parse_seconds

Commands: TypeAlias = "_SubParsersAction[ArgumentParser]"

EXIT_CODES: Final = (
    "exit codes: 0 done, or nothing to do; 65 data that retrying cannot fix; 75 try again; 2 usage\n"
    "            141 the program that reads the output has ended\n"
    "PIPELINE is a path, or a name in dags/pipelines"
)
_LEAST_AGE_SECONDS: Final = 3_600


def add_command(commands: Commands, name: str, help_text: str, description: str, example: str) -> ArgumentParser:
    """Adds a command that is for a pipeline; returns the parser of its arguments."""
    parser = commands.add_parser(
        name,
        help=help_text,
        description=description,
        epilog=f"example:\n  {example}\n\n{EXIT_CODES}",
        formatter_class=RawDescriptionHelpFormatter,
    )
    add_pipeline(parser)
    add_verbose(parser)
    return parser


def add_pipeline(parser: ArgumentParser) -> None:
    """The pipeline that a command is for."""
    argument = parser.add_argument("pipeline", metavar="PIPELINE", help="a path, or a name in dags/pipelines")
    argument.completer = complete_pipeline  # type: ignore[attr-defined]


def add_verbose(parser: ArgumentParser) -> None:
    """Options of every command."""
    parser.add_argument("-v", "--verbose", action="store_true", help="show every decision, and tracebacks of errors")


def add_backfill(parser: ArgumentParser) -> None:
    """The backfill that a command is for, instead of its pipeline."""
    parser.add_argument(
        "--backfill", metavar="ID", help="the id of a backfill, as printed by `run` and in the log of its plan"
    )


def add_consent(parser: ArgumentParser) -> None:
    """Options of a command that asks before it changes anything."""
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")


def add_json(parser: ArgumentParser) -> None:
    """One JSON object instead of tables."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")


def add_engine(parser: ArgumentParser) -> None:
    """The engine that runs the phases."""
    parser.add_argument("--engine", choices=("local", "spark", "auto"), help="instead of the pipeline's: %(choices)s")


def add_range(parser: ArgumentParser) -> None:
    """The two ends of a range, each by a snapshot or by a time."""
    after, up_to = parser.add_mutually_exclusive_group(), parser.add_mutually_exclusive_group()
    after.add_argument("--after-snapshot-id", type=int, metavar="N", help="the range begins after this snapshot")
    after.add_argument("--after-timestamp", type=timestamp, metavar="T", help="... or after the one current then")
    up_to.add_argument("--up-to-snapshot-id", type=int, metavar="N", help="the range ends with this snapshot")
    up_to.add_argument("--up-to-timestamp", type=timestamp, metavar="T", help="... or with the one current then")


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


def complete_pipeline(prefix: str, parsed_args: Namespace, **_: object) -> Sequence[str]:  # noqa: ARG001 - argcomplete's
    """The names of the pipelines that begin with a prefix, for the shell."""
    from icefloe.pipeline.pipeline_file import pipeline_paths

    return sorted(path.stem for path in pipeline_paths() if path.stem.startswith(prefix))
