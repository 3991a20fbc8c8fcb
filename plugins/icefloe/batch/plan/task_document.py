"""Makes a `MapTask` from the files of a scan: shared terms, and each delete state by its difference."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from icefloe.batch.map_task import DeleteState, FileTerms, FileWork, MapTask
from icefloe.iceberg.delete_file import DeleteFile
from icefloe.iceberg.scan.delete_file_index import NO_DELETES, DeleteNumbers
from icefloe.iceberg.scan.scan_tasks import ScanTask, Term

__all__ = ["map_task_document"]


def map_task_document(map_id: int, tasks: Sequence[ScanTask], delete_files: Mapping[int, DeleteFile]) -> MapTask:
    """The document of a map task.

    Files share their terms if several have the same and some delete file is in force. A hundred delete files that each
    reach 2,000 data files would take 400,000 terms otherwise.

    Args:
        map_id: its number.
        tasks: the files it reads.
        delete_files: delete files by number, at least those that the terms of the files name.
    """
    # Data files with equal terms share one tuple.
    keys = [id(task.terms) for task in tasks]
    terms_of = {key: task.terms for key, task in zip(keys, tasks, strict=True)}
    named = NO_DELETES.union(*(term.delete_files for terms in terms_of.values() for term in terms))
    places = {number: place for place, number in enumerate(named)}
    written = {key: _written(terms, places) for key, terms in terms_of.items()}
    # Without delete files a term is as short as the place of a shared one.
    shared = [key for key, files in Counter(keys).items() if files > 1 and written[key].delete_states]
    shared_places = {key: place for place, key in enumerate(shared)}
    return MapTask(
        map_id=map_id,
        files=tuple(
            FileWork(data_file=task.data_file, shared=shared_places[key])
            if key in shared_places
            else FileWork(data_file=task.data_file, terms=written[key].terms, delete_states=written[key].delete_states)
            for key, task in zip(keys, tasks, strict=True)
        ),
        delete_files=tuple(delete_files[number] for number in named),
        shared_terms=tuple(written[key] for key in shared),
    )


def _written(terms: Sequence[Term], places: Mapping[int, int]) -> FileTerms:
    # A file that stays, while the delete files d and then e come to apply to it. States are numbered as they are met,
    # and only differences are written: a set that grows in each of n steps would take n * n / 2 numbers.
    #   step 0   -1 in state 0, +1 in state 1      1: adds d
    #   step 1   -1 in state 1, +1 in state 2      2: adds e
    states: dict[DeleteNumbers, int] = {NO_DELETES: 0}
    numbered = [(term.change_ordinal, term.weight, states.setdefault(term.delete_files, len(states))) for term in terms]
    return FileTerms(
        terms=tuple(numbered),
        delete_states=tuple(
            DeleteState(added=_places(after - before, places), dropped=_places(before - after, places))
            for before, after in pairwise(states)
        ),
    )


def _places(numbers: DeleteNumbers, places: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(places[number] for number in numbers)
