"""``icefloe sweep``: delete what dead runs left."""

import os
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from icefloe.batch.credentials import Credentials
from icefloe.batch.sweep.leftover import Leftover
from icefloe.batch.sweep.survey import Survey, survey_storage
from icefloe.cli.consent import is_agreed
from icefloe.cli.screen import Screen
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.units import format_bytes

_COLUMNS: Final = ("pipeline", "place", "batches", "files", "bytes", "may go because")
_NUMBERS: Final = ("files", "bytes")
_MOST_NUMBERS: Final = 8


def sweep(arguments: Namespace, screen: Screen) -> int:
    """Deletes leftovers after it has shown them and asked; what it could not judge or delete makes it fail.

    Raises:
        UsageError: there is nobody to ask.
        TerminalError: something was left alone because its checkpoint or sink cannot be read or is gone.
        TransientError: the same, and another try may help with all of it.
    """
    with screen.under_way("looking"):
        survey = survey_storage(
            arguments.storage,
            older_than_seconds=arguments.older_than,
            takes_forgotten=arguments.forgotten,
            credentials=Credentials.from_environment(os.environ).coordinated_by(
                arguments.coordination, arguments.storage
            ),
            environ=os.environ,
        )
    _show(survey, screen)
    deleted, problems = 0, survey.problems
    if not arguments.dry_run and _is_wanted(survey, arguments):
        with screen.under_way("deleting"):
            deleted, failures = survey.delete()
        problems = (*problems, *failures)
        screen.say(f"{deleted:,} files were deleted")
    if arguments.json:
        screen.json(_document(arguments, survey, deleted, problems))
    _raise_first(problems)
    return 0


def _is_wanted(survey: Survey, arguments: Namespace) -> bool:
    """True if there is anything to delete and the user agrees; a sweep without leftovers asks nobody."""
    objects, size_bytes = _totals(survey.leftovers)
    question = f"delete {objects:,} files, {format_bytes(size_bytes)}?"
    return not survey.leftovers or is_agreed(question, yes=arguments.yes)


def _show(survey: Survey, screen: Screen) -> None:
    if survey.leftovers:
        screen.table(_COLUMNS, _rows(survey.leftovers), numbers=_NUMBERS)
    else:
        screen.say("there is nothing to delete")
    for note in survey.notes:
        screen.say(f"note: {note}")


def _rows(leftovers: Iterable[Leftover]) -> Iterator[Sequence[str]]:
    """One row for the batches of one place that may go for the same reason."""
    alike: defaultdict[tuple[str, ...], list[Leftover]] = defaultdict(list)
    for each in leftovers:
        alike[each.pipeline or "-", each.place_url, each.reason.value].append(each)
    for (pipeline, place, reason), group in alike.items():
        objects, size_bytes = _totals(group)
        numbers = sorted({each.batch_number for each in group if each.batch_number is not None})
        yield pipeline, place, _numbers_text(numbers), f"{objects:,}", format_bytes(size_bytes), reason


def _numbers_text(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_MOST_NUMBERS])) or "-"
    return shown if len(numbers) <= _MOST_NUMBERS else f"{shown} and {len(numbers) - _MOST_NUMBERS:,} more"


def _totals(leftovers: Iterable[Leftover]) -> tuple[int, int]:
    found = list(leftovers)
    return sum(each.objects for each in found), sum(each.size_bytes for each in found)


def _document(
    arguments: Namespace, survey: Survey, deleted: int, problems: Sequence[IcefloeError]
) -> dict[str, object]:
    return {
        "storage": arguments.storage,
        "is_dry_run": arguments.dry_run,
        "deleted_files": deleted,
        "leftovers": [
            {
                "pipeline": each.pipeline,
                "backfill_id": each.backfill_id,
                "batch": each.batch_number,
                "url": each.url,
                "reason": each.reason.name.lower(),
                "files": each.objects,
                "bytes": each.size_bytes,
            }
            for each in survey.leftovers
        ],
        "notes": list(survey.notes),
        "problems": [problem.sentence for problem in problems],
    }


def _raise_first(problems: Sequence[IcefloeError]) -> None:
    """Raises all problems as one error; another try helps only if it may help with each of them."""
    if not problems:
        return
    sentences = tuple(dict.fromkeys(problem.sentence for problem in problems))
    if all(isinstance(problem, TransientError) for problem in problems):
        raise TransientError(*sentences)
    raise TerminalError(*sentences, sentences=sentences)
