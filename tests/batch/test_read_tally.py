import pytest

from icefloe.audit.sums import AuditError
from icefloe.batch.document import FileWork
from icefloe.batch.read_tally import ReadTally
from icefloe.iceberg.data_file import DataFile


def work(path: str, rows: int, *weights: tuple[int, int]) -> FileWork:
    file = DataFile(path=path, file_format="PARQUET", spec_id=0, record_count=rows, file_size_bytes=10)
    return FileWork(data_file=file, weights=weights)


FILES = [work("a", 5, (0, -1)), work("b", 7, (0, 1), (1, -1))]


def tally(**rows: int) -> ReadTally:
    found = ReadTally(FILES)
    for each in FILES:
        if each.data_file.path in rows:
            found.add_file(each, rows[each.data_file.path])
    return found


def test_rows_count_once_for_each_step_and_bytes_once() -> None:
    found = tally(a=5, b=7)
    assert (found.rows_read, found.removed_rows, found.added_rows, found.bytes_read) == (12, 12, 7, 20)


def test_what_is_handed_on_must_have_the_signed_count_of_what_was_read() -> None:
    tally(a=5, b=7).require({0: 2, 1: -7}, what="map task 3")
    with pytest.raises(AuditError, match=r"^map task 3 read 2 rows net in change ordinal 0 and hands on 1;"):
        tally(a=5, b=7).require({0: 1, 1: -7}, what="map task 3")


def test_rows_in_an_ordinal_that_nothing_was_read_for_are_made_up() -> None:
    with pytest.raises(AuditError, match="read 0 rows net in change ordinal 2 and hands on 1"):
        tally(a=5, b=7).require({0: 2, 1: -7, 2: 1}, what="map task 3")


def test_a_file_that_was_not_read_to_its_end_is_named() -> None:
    with pytest.raises(AuditError, match="read 0 of the 5 rows of a"):
        tally(b=7).require({0: 7, 1: -7}, what="map task 3")
    with pytest.raises(AuditError, match="read 6 of the 7 rows of b"):
        tally(a=5, b=6).require({0: 1, 1: -6}, what="map task 3")
