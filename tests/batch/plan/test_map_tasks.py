from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import FrozenBitMap

from icefloe.batch.plan.map_tasks import PlannedFile, map_tasks
from icefloe.iceberg.data_file import Constant, DataFile, DeleteFile, FileContent
from icefloe.iceberg.scan.scan_tasks import ScanTask, Term

ID = 1


def planned(
    path: str,
    weight: int,
    *,
    lower: Any = None,
    upper: Any = None,
    size: int = 10,
    rows: int = 1,
    partition: Constant = None,
) -> PlannedFile:
    file = DataFile(path=path, file_format="PARQUET", spec_id=0, record_count=rows, file_size_bytes=size)
    bounds = {} if lower is None else {ID: (lower, upper)}
    task = ScanTask(data_file=file, terms=(Term(change_ordinal=0, weight=weight),), partition=(0, (partition,)))
    return PlannedFile(task=task, bounds=bounds)


def grouped(*files: PlannedFile, map_task_bytes: int) -> list[list[str]]:
    return [[work.data_file.path for work in task] for task in map_tasks(files, map_task_bytes=map_task_bytes)]


def test_files_whose_ranges_overlap_stay_together_while_they_fit() -> None:
    old = [planned("old1", -1, lower=0, upper=9), planned("old2", -1, lower=10, upper=19)]
    new = [planned("new", 1, lower=5, upper=12), planned("apart", 1, lower=30, upper=39)]
    assert grouped(*old, *new, map_task_bytes=30) == [["old1", "new", "old2"], ["apart"]]


def test_overlapping_files_that_are_too_many_are_torn_apart_between_different_bounds() -> None:
    files = [
        planned(f"{kind}{n}", sign, lower=n, upper=n + 5) for n in range(4) for kind, sign in (("o", -1), ("n", 1))
    ]
    tasks = grouped(*files, map_task_bytes=20)
    assert [{path[1:] for path in task} for task in tasks] == [{"0"}, {"1"}, {"2"}, {"3"}]


def test_files_with_equal_bounds_are_divided_into_pairs_if_they_are_too_many() -> None:
    files = [planned(f"{kind}{n}", sign, lower=0, upper=9) for kind, sign in (("o", -1), ("n", 1)) for n in range(9)]
    tasks = grouped(*files, map_task_bytes=20)
    assert [sorted(path[0] for path in task) for task in tasks] == [["n", "o"]] * 9
    assert len(grouped(*files[:16], map_task_bytes=20)) == 1


def test_files_keep_the_order_of_the_steps_where_nothing_is_removed() -> None:
    files = [planned(f"f{n}", 1, lower=9 - n, upper=9 - n, partition=9 - n) for n in range(5)]
    assert grouped(*files, map_task_bytes=20) == [["f0", "f1"], ["f2", "f3"], ["f4"]]


def test_ten_thousand_small_files_are_in_as_few_tasks_as_their_bytes_allow() -> None:
    added = [planned(f"n{n}", 1, lower=n, upper=n) for n in range(10_000)]
    assert len(grouped(*added, map_task_bytes=50_000)) == 2
    pairs = [planned(f"o{n}", -1, lower=n, upper=n) for n in range(5_000)] + added[:5_000]
    assert len(grouped(*pairs, map_task_bytes=50_000)) == 2


def test_a_task_compares_no_more_rows_than_its_memory_holds_unless_they_belong_together() -> None:
    million = 1_000_000
    added = [planned(f"n{n}", 1, lower=n, upper=n, rows=million) for n in range(6)]
    removed = [planned(f"o{n}", -1, lower=n, upper=n, rows=million) for n in range(6)]
    assert [len(task) for task in grouped(*removed, *added, map_task_bytes=1_000)] == [4, 4, 4]
    assert [len(task) for task in grouped(*added, map_task_bytes=1_000)] == [6]
    large = [planned(name, sign, lower=0, upper=0, rows=5 * million) for name, sign in (("o", -1), ("n", 1))]
    assert [len(task) for task in grouped(*large, map_task_bytes=1_000)] == [2]


def test_the_column_that_separates_files_best_decides() -> None:
    def file(path: str, weight: int, number: int) -> PlannedFile:
        base = planned(path, weight)
        return PlannedFile(task=base.task, bounds={1: (0, 100), 2: (number, number)})

    files = [file("o1", -1, 1), file("o2", -1, 2), file("n2", 1, 2), file("n1", 1, 1)]
    assert [sorted(task) for task in grouped(*files, map_task_bytes=20)] == [["n1", "o1"], ["n2", "o2"]]


def test_table_partitions_stay_apart_where_they_fill_a_task() -> None:
    files = [planned(f"{day}{sign}", sign, lower=1, upper=1, partition=day) for sign in (-1, 1) for day in "ab"]
    assert [sorted(task) for task in grouped(*files, map_task_bytes=20)] == [["a-1", "a1"], ["b-1", "b1"]]


MIB = 1 << 20


def touched(terms: Sequence[tuple[int, set[int]]], *, size: int = 1000 * MIB) -> int:
    """The reading of a file with its own deletion vectors 0 and 1, of 2 rows, and equality deletes 2."""
    file = DataFile(path="f", file_format="PARQUET", spec_id=0, record_count=10**6, file_size_bytes=size)
    known: dict[str, Any] = {"spec_id": 0, "record_count": 2, "file_size_bytes": 10**9, "sequence_number": 1}
    vector = DeleteFile(
        path="v", content=FileContent.POSITION_DELETES, file_format="PUFFIN", referenced_data_file="f",
        content_offset=4, content_size_bytes=50, **known,
    )  # fmt: skip
    keys = DeleteFile(path="k", content=FileContent.EQUALITY_DELETES, file_format="PARQUET", **known)
    found = [Term(change_ordinal=0, weight=weight, delete_files=FrozenBitMap(numbers)) for weight, numbers in terms]
    task = ScanTask(data_file=file, terms=tuple(found), partition=(0, ()))
    return PlannedFile(task=task, bounds={}, delete_files={0: vector, 1: vector, 2: keys}).read_bytes


def test_a_file_with_few_touched_rows_counts_for_their_row_groups_and_its_own_delete_files() -> None:
    assert touched([(-1, set()), (1, {0})]) == 2 * 128 * MIB + 50
    assert touched([(-1, {0}), (1, {1})]) == 4 * 128 * MIB + 100
    assert touched([(-1, {0, 2}), (1, {0, 1, 2})]) == 2 * 128 * MIB + 100
    assert touched([(-1, set()), (1, {0})], size=MIB) == MIB + 50


def test_a_file_counts_in_full_where_it_is_added_or_nobody_knows_how_many_rows_are_touched() -> None:
    assert touched([(1, {0})]) == 1000 * MIB + 50
    assert touched([(-1, {0}), (1, {0, 2})]) == 1000 * MIB + 50


FILES = st.lists(
    st.tuples(
        st.sampled_from([-1, 1]), st.integers(0, 20), st.integers(0, 20), st.integers(1, 50), st.sampled_from("ab")
    ),
    max_size=20,
)


@given(FILES, st.integers(1, 120), st.booleans())
def test_every_file_is_in_one_task_and_tasks_are_bounded(
    specs: list[tuple[int, int, int, int, str]], map_task_bytes: int, has_bounds: bool
) -> None:
    files = [
        planned(f"f{n}", sign, lower=min(ends) if has_bounds else None, upper=max(ends), size=size, partition=day)
        for n, (sign, *ends, size, day) in enumerate(specs)
    ]
    tasks = map_tasks(files, map_task_bytes=map_task_bytes)
    assert sorted(work.data_file.path for task in tasks for work in task) == sorted(f"f{n}" for n in range(len(specs)))
    bounds = {file.task.data_file.path: (file.task.partition, file.bounds) for file in files}
    for task in tasks:
        is_bounded = sum(work.data_file.file_size_bytes for work in task) <= map_task_bytes
        assert is_bounded or len({str(bounds[work.data_file.path]) for work in task}) == 1
