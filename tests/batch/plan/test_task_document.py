"""Documents give back exactly the terms that they were made of."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from icefloe.batch.plan.map_tasks import map_task_document
from icefloe.batch.plan_document import FileTerms, MapTask
from icefloe.documents import dump_document, load_document
from icefloe.errors import TerminalError
from icefloe.iceberg.data_file import DataFile, DeleteFile, FileContent, RowGroups
from icefloe.iceberg.scan.scan_tasks import ScanTask, Term

GOLDEN: Final = Path(__file__).parent / "golden"
DELETE_FILES = {
    number: DeleteFile(
        path=f"d{number}",
        content=FileContent.POSITION_DELETES,
        file_format="PARQUET",
        spec_id=0,
        record_count=1,
        file_size_bytes=10,
        sequence_number=number,
    )
    for number in range(3, 10)
}
NUMBERS = st.sets(st.sampled_from(sorted(DELETE_FILES))).map(FrozenBitMap)
TERMS = st.lists(
    st.builds(
        lambda ordinal, weight, numbers: Term(change_ordinal=ordinal, weight=weight, delete_files=numbers),
        st.integers(0, 3),
        st.sampled_from([-1, 1, 2]),
        NUMBERS,
    ),
    min_size=1,
    max_size=6,
).map(tuple)


def task(path: str, terms: Sequence[Term]) -> ScanTask:
    file = DataFile(path=path, file_format="PARQUET", spec_id=0, record_count=9, file_size_bytes=100)
    return ScanTask(data_file=file, terms=tuple(terms), partition=(0, ()))


def delete_sets(terms: FileTerms) -> list[frozenset[int]]:
    """The delete files in force in each delete state."""
    sets = [frozenset[int]()]
    for state in terms.delete_states:
        sets.append((sets[-1] - frozenset(state.dropped)) | frozenset(state.added))
    return sets


@given(st.lists(TERMS, min_size=1, max_size=3).flatmap(lambda some: st.lists(st.sampled_from(some), max_size=5)))
def test_every_term_comes_back_with_the_delete_files_that_it_names(files: list[tuple[Term, ...]]) -> None:
    tasks = [task(f"f{place}", terms) for place, terms in enumerate(files)]
    document = load_document(MapTask, dump_document(map_task_document(4, tasks, DELETE_FILES)), what="the document")
    assert document.map_id == 4
    named = {number for terms in files for term in terms for number in term.delete_files}
    assert sorted(file.path for file in document.delete_files) == sorted(f"d{number}" for number in named)
    assert [work.data_file for work in document.files] == [each.data_file for each in tasks]
    of_files = [document.terms[work.terms] for work in document.files]
    for given_task, found_terms in zip(tasks, of_files, strict=True):
        sets = delete_sets(found_terms)
        assert sets[0] == frozenset()
        found = [
            (ordinal, weight, {document.delete_files[place].path for place in sets[state]})
            for ordinal, weight, state in found_terms.terms
        ]
        assert found == [
            (term.change_ordinal, term.weight, {f"d{number}" for number in term.delete_files})
            for term in given_task.terms
        ]
    assert document.size_bytes == 100 * len(files) + 10 * len(named)


def equality_deletes(number: int) -> DeleteFile:
    return DeleteFile(
        path=f"s3://lake/delete-{number}.parquet",
        content=FileContent.EQUALITY_DELETES,
        file_format="PARQUET",
        spec_id=0,
        record_count=3,
        file_size_bytes=40,
        sequence_number=number,
        equality_field_ids=(1,),
    )


def golden_tasks() -> list[ScanTask]:
    """Files a and c stay while the delete files 3 and then 5 come to reach them; b is removed, d and e are added."""
    one, both = FrozenBitMap([3]), FrozenBitMap([3, 5])
    reached = (
        Term(change_ordinal=0, weight=-1),
        Term(change_ordinal=0, weight=1, delete_files=one),
        Term(change_ordinal=1, weight=-1, delete_files=one),
        Term(change_ordinal=1, weight=1, delete_files=both),
    )
    removed = (Term(change_ordinal=1, weight=-1, delete_files=FrozenBitMap([3, 7])),)
    added = (Term(change_ordinal=0, weight=1),)
    files = {"a": reached, "b": removed, "c": reached, "d": added, "e": added}
    return [
        ScanTask(
            data_file=DataFile(
                path=f"s3://lake/{name}.parquet",
                file_format="PARQUET",
                spec_id=0,
                record_count=9,
                file_size_bytes=100,
                sequence_number=2,
            ),
            terms=terms,
            partition=(0, ()),
        )
        for name, terms in files.items()
    ]


def golden(name: str = "shared_terms") -> bytes:
    return (GOLDEN / f"{name}.json").read_bytes()


def test_a_document_is_as_it_was_written_and_is_read() -> None:
    document = map_task_document(4, golden_tasks(), {number: equality_deletes(number) for number in (3, 5, 7)})
    assert dump_document(document) == golden()
    assert load_document(MapTask, golden(), what="the document") == document
    assert [work.terms for work in document.files] == [0, 1, 0, 2, 2]


def part_of_a_file() -> ScanTask:
    [*_, last] = golden_tasks()
    part = replace(last.data_file, record_count=4, row_groups=RowGroups(first=1, stop=3, size_bytes=60))
    return replace(last, data_file=part, terms=(Term(change_ordinal=0, weight=1),))


def test_a_part_of_a_file_is_written_and_read() -> None:
    document = map_task_document(4, [part_of_a_file()], {})
    assert dump_document(document) == golden("row_groups")
    assert load_document(MapTask, golden("row_groups"), what="the document") == document
    assert document.size_bytes == 60


def test_a_file_whose_terms_are_missing_is_refused() -> None:
    with pytest.raises(TerminalError, match="names terms that the map task lacks"):
        load_document(MapTask, golden().replace(b'"terms": 0', b'"terms": 3', 1), what="the document")
