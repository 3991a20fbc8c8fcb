"""Documents give back exactly the terms that they were made of."""

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from icefloe.batch.plan.task_document import map_task_document
from icefloe.batch.plan_document import DeleteState, MapTask
from icefloe.documents import dump_document, load_document
from icefloe.iceberg.data_file import DataFile
from icefloe.iceberg.delete_file import DeleteFile, FileContent
from icefloe.iceberg.scan.scan_tasks import ScanTask, Term

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
)


def task(path: str, terms: list[Term]) -> ScanTask:
    file = DataFile(path=path, file_format="PARQUET", spec_id=0, record_count=9, file_size_bytes=100)
    return ScanTask(data_file=file, terms=tuple(terms), partition=(0, ()))


@given(st.lists(TERMS, max_size=3))
def test_every_term_comes_back_with_the_delete_files_that_it_names(files: list[list[Term]]) -> None:
    tasks = [task(f"f{place}", terms) for place, terms in enumerate(files)]
    document = load_document(MapTask, dump_document(map_task_document(4, tasks, DELETE_FILES)), what="the document")
    assert document.map_id == 4
    named = {number for terms in files for term in terms for number in term.delete_files}
    assert sorted(file.path for file in document.delete_files) == sorted(f"d{number}" for number in named)
    for given_task, work in zip(tasks, document.files, strict=True):
        assert work.data_file == given_task.data_file
        sets = work.delete_sets()
        assert sets[0] == frozenset()
        found = [
            (ordinal, weight, {document.delete_files[place].path for place in sets[state]})
            for ordinal, weight, state in work.terms
        ]
        assert found == [
            (term.change_ordinal, term.weight, {f"d{number}" for number in term.delete_files})
            for term in given_task.terms
        ]
    assert document.size_bytes == 100 * len(files) + 10 * len(named)


def test_a_delete_state_is_recorded_once_by_its_difference() -> None:
    before, after = FrozenBitMap([3, 5]), FrozenBitMap([5, 7])
    terms = [
        Term(change_ordinal=0, weight=1, delete_files=before),
        Term(change_ordinal=1, weight=-1, delete_files=before),
        Term(change_ordinal=1, weight=1, delete_files=after),
        Term(change_ordinal=2, weight=-1, delete_files=after),
    ]
    [work] = map_task_document(0, [task("f", terms)], DELETE_FILES).files
    assert work.terms == ((0, 1, 1), (1, -1, 1), (1, 1, 2), (2, -1, 2))
    assert work.delete_states == (DeleteState(added=(0, 1)), DeleteState(added=(2,), dropped=(0,)))
