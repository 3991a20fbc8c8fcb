"""Map task documents: files to read, with each delete state as the difference to the state before it."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from icefloe.batch.plan_document import DeleteState, FileWork, MapTask
from icefloe.iceberg.delete_file import DeleteFile
from icefloe.iceberg.scan.delete_file_index import NO_DELETES, DeleteNumbers
from icefloe.iceberg.scan.scan_tasks import ScanTask

__all__ = ["delete_sets", "map_task_document"]


def map_task_document(map_id: int, tasks: Sequence[ScanTask], delete_files: Mapping[int, DeleteFile]) -> MapTask:
    """The document of a map task.

    Args:
        map_id: its number.
        tasks: the files it reads.
        delete_files: delete files by number, at least those that the terms of the files name.
    """
    named = NO_DELETES.union(*(term.delete_files for task in tasks for term in task.terms))
    places = {number: place for place, number in enumerate(named)}
    return MapTask(
        map_id=map_id,
        files=tuple(_file_work(task, places) for task in tasks),
        delete_files=tuple(delete_files[number] for number in named),
    )


def delete_sets(work: FileWork) -> list[frozenset[int]]:
    """The delete files in force in each delete state, by their place in the map task; state 0 has none.

    >>> from icefloe.iceberg.data_file import DataFile
    >>> file = DataFile(path="a", file_format="PARQUET", spec_id=0, record_count=9, file_size_bytes=1)
    >>> states = (DeleteState(added=(0,)), DeleteState(added=(2,), dropped=(0,)))
    >>> [sorted(found) for found in delete_sets(FileWork(data_file=file, terms=((0, 1, 2),), delete_states=states))]
    [[], [0], [2]]
    """
    sets = [frozenset[int]()]
    for state in work.delete_states:
        sets.append((sets[-1] - frozenset(state.dropped)) | frozenset(state.added))
    return sets


def _file_work(task: ScanTask, places: Mapping[int, int]) -> FileWork:
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
