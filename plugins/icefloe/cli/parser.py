"""The arguments of every command."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Sequence
from datetime import datetime
from typing import Final, TypeAlias

from icefloe.units import parse_seconds
from icefloe.version import VERSION

Commands: TypeAlias = "_SubParsersAction[ArgumentParser]"

_EXIT_CODES: Final = (
    "exit codes: 0 done, or nothing to do; 65 data that retrying cannot fix; 75 try again; 2 usage\n"
    "PIPELINE is a path, or a name in dags/pipelines"
)

_LEAST_AGE_SECONDS: Final = 3_600


def make_parser() -> ArgumentParser:
    """The parser; ``command`` in its result is the command's name."""
    parser = ArgumentParser(
        prog="icefloe",
        description="Row-level changes of Apache Iceberg tables.",
        epilog=_EXIT_CODES,
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
    _add_validate(commands)
    _add_sweep(commands)
    _add_abandon(commands)
    _add_unpin(commands)
    _add_set_cursor(commands)
    _add_reset(commands)
    return parser


def _add_run(commands: Commands) -> None:
    run = _command(
        commands,
        "run",
        "deliver one batch, without Airflow",
        "Resumes the open batch, otherwise delivers the next one; with a range, delivers a backfill of it. The last "
        "line on standard output is one JSON object.",
        "icefloe run flights_changes --engine local\n  icefloe run flights_changes --after-timestamp 2026-01-01T00:00Z",
    )
    _add_range(run)
    _add_engine(run)
    run.add_argument("--json", action="store_true", help="print only that line")
    run.add_argument(
        "--take-over", action="store_true", help="become the owner of the checkpoint in place of the present one"
    )


def _add_plan(commands: Commands) -> None:
    plan = _command(
        commands,
        "plan",
        "show the input and the size of the next batch",
        "Steps, files, rows, bytes and route of the batch that `run` would deliver. Touches nothing.",
        "icefloe plan flights_changes",
    )
    _add_range(plan)
    _add_engine(plan)
    _add_json(plan)


def _add_status(commands: Commands) -> None:
    status = _command(
        commands,
        "status",
        "cursor, head, lag and open batch",
        "Shows how far the pipeline is behind its table.",
        "icefloe status flights_changes --json",
    )
    _add_json(status)


def _add_batches(commands: Commands) -> None:
    batches = _command(
        commands,
        "batches",
        "the last batches, newest first",
        "Lists the changes and the duration of each of the last batches. Asks neither catalog nor table.",
        "icefloe batches flights_changes\n  icefloe batches flights_changes --limit 100 --json",
    )
    batches.add_argument("--limit", type=_positive, default=20, metavar="N", help="how many; default: %(default)s")
    _add_backfill(batches)
    _add_json(batches)


def _add_show(commands: Commands) -> None:
    show = _command(
        commands,
        "show",
        "everything that is known of one batch",
        "Shows the report of a batch: its input and changes, the time of each phase, and the spread of bytes and "
        "times over its tasks. Asks neither catalog nor table.",
        "icefloe show flights_changes\n  icefloe show flights_changes --batch 41 --json",
    )
    show.add_argument("--batch", type=int, metavar="N", help="its number; default: the latest")
    _add_backfill(show)
    _add_json(show)


def _add_verify(commands: Commands) -> None:
    verify = _command(
        commands,
        "verify",
        "replay the delivered changes and compare with the table",
        "Replays every delivered change on the start state and compares the rows with the end state.",
        "icefloe verify flights_changes",
    )
    _add_json(verify)


def _add_validate(commands: Commands) -> None:
    validate = _command(
        commands,
        "validate",
        "check the file, the catalog, the table, the storage and the sink",
        "Changes nothing; the storage and the sink are tried with an object that is deleted at once.",
        "icefloe validate dags/pipelines/flights_changes.yaml",
    )
    _add_json(validate)


def _add_sweep(commands: Commands) -> None:
    sweep = commands.add_parser(
        "sweep",
        help="delete the files that dead runs left",
        description="Deletes the files of batches that have ended, and old files of no batch, below `shuffle/` of a "
        "storage. Deletes the files at the sinks of its pipelines that no manifest names, too. Files of an open batch "
        "stay. Shows what it would delete, and asks.",
        epilog=f"example:\n  icefloe sweep s3://lake/icefloe --dry-run\n\n{_EXIT_CODES}",
        formatter_class=RawDescriptionHelpFormatter,
    )
    sweep.add_argument("storage", metavar="STORAGE", help="the URL of a storage, as pipeline files name it")
    sweep.add_argument("--dry-run", action="store_true", help="only show what would be deleted")
    sweep.add_argument("--yes", action="store_true", help="do not ask")
    sweep.add_argument(
        "--older-than",
        type=_age,
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
    _add_json(sweep)
    _add_common(sweep)


def _add_abandon(commands: Commands) -> None:
    abandon = _command(
        commands,
        "abandon",
        "give up an open batch",
        "Ends the open batch without changes, if readers have seen nothing of it. Its number is not used again, and "
        "the next batch begins where it began. A batch that readers see is recorded as done instead. Asks neither "
        "catalog nor table.",
        "icefloe abandon flights_changes --dry-run\n  icefloe abandon flights_changes --yes",
    )
    _add_backfill(abandon)
    _add_consent(abandon)
    _add_json(abandon)


def _add_unpin(commands: Commands) -> None:
    unpin = _command(
        commands,
        "unpin",
        "let the pinned snapshots of a pipeline go",
        "Drops the branch and the tags by which `pin: true` keeps snapshots from expiring, in one commit to the table. "
        "For a pipeline that is removed. Shows them, and asks.",
        "icefloe unpin flights_changes --dry-run",
    )
    _add_consent(unpin)
    _add_json(unpin)


def _add_set_cursor(commands: Commands) -> None:
    set_cursor = _command(
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
    _add_consent(set_cursor)
    _add_json(set_cursor)


def _add_reset(commands: Commands) -> None:
    reset = _command(
        commands,
        "reset",
        "begin from scratch",
        "Gives up the cursor, so that the next batch begins as initial_load says, with the configuration and the table "
        "as they are now. Batch numbers go on.",
        "icefloe reset flights_changes --dry-run\n  icefloe reset flights_changes --yes",
    )
    _add_consent(reset)
    _add_json(reset)


def _command(commands: Commands, name: str, help_text: str, description: str, example: str) -> ArgumentParser:
    parser = commands.add_parser(
        name,
        help=help_text,
        description=description,
        epilog=f"example:\n  {example}\n\n{_EXIT_CODES}",
        formatter_class=RawDescriptionHelpFormatter,
    )
    _add_pipeline(parser)
    _add_common(parser)
    return parser


def _add_pipeline(parser: ArgumentParser) -> None:
    argument = parser.add_argument("pipeline", metavar="PIPELINE", help="a path, or a name in dags/pipelines")
    argument.completer = complete_pipeline  # type: ignore[attr-defined]


def _add_common(parser: ArgumentParser) -> None:
    parser.add_argument("-v", "--verbose", action="store_true", help="show every decision, and tracebacks of errors")


def _add_backfill(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--backfill", metavar="ID", help="the id of a backfill, as printed by `run` and in the log of its plan"
    )


def _add_consent(parser: ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")


def _add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")


def _add_engine(parser: ArgumentParser) -> None:
    parser.add_argument("--engine", choices=("local", "spark"), help="instead of the pipeline's: %(choices)s")


def _add_range(parser: ArgumentParser) -> None:
    after, up_to = parser.add_mutually_exclusive_group(), parser.add_mutually_exclusive_group()
    after.add_argument("--after-snapshot-id", type=int, metavar="N", help="the range begins after this snapshot")
    after.add_argument("--after-timestamp", type=_timestamp, metavar="T", help="... or after the one current then")
    up_to.add_argument("--up-to-snapshot-id", type=int, metavar="N", help="the range ends with this snapshot")
    up_to.add_argument("--up-to-timestamp", type=_timestamp, metavar="T", help="... or with the one current then")


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _age(text: str) -> float:
    try:
        seconds = parse_seconds(text)
    except ValueError as cause:
        raise ArgumentTypeError(str(cause)) from cause
    if seconds < _LEAST_AGE_SECONDS:
        raise ArgumentTypeError(f"{text!r} is less than an hour: a run that is at work may have younger files")
    return seconds


def _timestamp(text: str) -> datetime:
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
