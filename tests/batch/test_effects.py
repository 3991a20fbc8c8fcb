from icefloe.batch.document import FileWork
from icefloe.batch.effects import contended_ordinals
from icefloe.iceberg.data_file import DataFile


def work(*weights: tuple[int, int]) -> FileWork:
    file = DataFile(path="a", file_format="PARQUET", spec_id=0, record_count=1, file_size_bytes=1)
    return FileWork(data_file=file, weights=weights)


def test_rows_can_cancel_in_the_ordinals_that_have_both_signs() -> None:
    assert contended_ordinals([work((0, 1)), work((0, 1), (1, -1)), work((1, 1)), work((2, -1))]) == {1}


def test_a_weight_beyond_one_keeps_its_ordinal_out() -> None:
    assert contended_ordinals([work((0, 2)), work((0, -1)), work((0, 1))]) == frozenset()
