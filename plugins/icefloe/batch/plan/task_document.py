"""The document of a map task: files to read, with each delete state as the difference to the state before it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from icefloe.batch.plan_document import DeleteState, FileWork, MapTask
from icefloe.iceberg.delete_file import DeleteFile
from icefloe.iceberg.scan.delete_file_index import NO_DELETES, DeleteNumbers
from icefloe.iceberg.scan.scan_tasks import ScanTask

__all__ = ["map_task_document"]


def map_task_document(map_id: int, tasks: Sequence[ScanTask], delete_files: Mapping[int, DeleteFile]) -> MapTask:
    """The document of a map task.

    Args:
        map_id: its number.
        tasks: the files it reads.
        delete_files: delete files by number, at least those that the terms of the files name.
    """
    named = NO_DELETES.union(*(term.delete_files for task in tasks for term in task.terms))
    places = {number: place for place, number in enumerate(named)}
    # Data files that share their terms share what is written of them, too.
    shared: dict[tuple[int, ...], FileWork] = {}
    return MapTask(
        map_id=map_id,
        files=tuple(_file_work(task, places, shared) for task in tasks),
        delete_files=tuple(delete_files[number] for number in named),
    )


def _file_work(task: ScanTask, places: Mapping[int, int], shared: dict[tuple[int, ...], FileWork]) -> FileWork:
    key = tuple(map(id, task.terms))
    like = shared.get(key)
    if like is None:
        like = shared[key] = _work_of(task, places)
    return replace(like, data_file=task.data_file)


def _work_of(task: ScanTask, places: Mapping[int, int]) -> FileWork:
    # A file that stays, while the delete files d and then e come to apply to it. States are numbered as they are met,
    # and only differences are written: a set that grows in each of n steps would take n * n / 2 numbers.
    #   step 0   -1 in state 0, +1 in state 1      1: adds d
    #   step 1   -1 in state 1, +1 in state 2      2: adds e
    states: dict[DeleteNumbers, int] = {NO_DELETES: 0}
    terms = [
        (term.change_ordinal, term.weight, states.setdefault(term.delete_files, len(states))) for term in task.terms
    ]
    return FileWork(
        data_file=task.data_file,
        terms=tuple(terms),
        delete_states=tuple(
            DeleteState(added=_places(after - before, places), dropped=_places(before - after, places))
            for before, after in pairwise(states)
        ),
    )


def _places(numbers: DeleteNumbers, places: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(places[number] for number in numbers)
