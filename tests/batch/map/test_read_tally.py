from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from batch.touched_files import touched_file
from icefloe.batch.map.hashed_rows import FileTally, ReadTally
from icefloe.batch.rows.file_effects import FileEffects
from icefloe.batch.rows.row_reader import ReadRows
from icefloe.batch.rows.weighted_rows import Effect, RowSet
from icefloe.errors import TerminalError

FILES = [touched_file("a", 5, (0, -1)), touched_file("b", 7, (0, 1), (1, -1))]


def read(file: FileEffects, positions: range) -> FileTally:
    found = FileTally(file)
    batch = pa.RecordBatch.from_pydict({"id": list(positions)})
    found.add(ReadRows(positions=np.array(positions, np.int64), batch=batch, rows_read=len(positions)))
    return found


def tally(**rows: int) -> ReadTally:
    found = ReadTally(FILES)
    for each in FILES:
        if each.data_file.path in rows:
            found.add_file(read(each, range(rows[each.data_file.path])))
    return found


def test_rows_count_once_for_each_step() -> None:
    found = tally(a=5, b=7)
    assert (found.rows_read, found.removed_rows, found.added_rows) == (12, 12, 7)


def test_a_file_that_is_read_with_other_constants_counts_again() -> None:
    listed = [replace(FILES[0].data_file, constants={"2": day}) for day in (1, 2)]
    files = [replace(FILES[0], data_file=listed[0]), replace(FILES[1], data_file=replace(listed[1], record_count=7))]
    found = ReadTally(files)
    for file in files:
        found.add_file(read(file, range(file.data_file.record_count)))
    assert (found.rows_read, found.removed_rows, found.added_rows) == (12, 12, 7)


def test_of_a_file_with_deletes_only_the_touched_rows_are_read_and_count_where_they_are_touched() -> None:
    gone = Effect(change_ordinal=1, weight=-1, rows=RowSet(positions=np.array([2, 3])))
    file = FileEffects(data_file=FILES[0].data_file, effects=(gone,))
    found = ReadTally([file])
    found.add_file(read(file, range(2, 4)))
    found.require({1: -2}, what="map task 3")
    found.add_file(read(file, range(5)))
    with pytest.raises(TerminalError, match="read 5 of the 2 rows of a"):
        found.require({1: -2}, what="map task 3")


def test_a_file_that_is_read_with_other_row_ids_too_counts_with_each() -> None:
    again = replace(FILES[0], data_file=replace(FILES[0].data_file, first_row_id=7))
    found = ReadTally([FILES[0], again])
    found.add_file(read(again, range(5)))
    with pytest.raises(TerminalError, match="read 0 of the 5 rows of a"):
        found.require({0: -5}, what="map task 3")
    found.add_file(read(FILES[0], range(5)))
    found.require({0: -10}, what="map task 3")
    assert found.rows_read == 10


def test_shuffled_rows_must_have_the_signed_count_of_the_rows_read() -> None:
    tally(a=5, b=7).require({0: 2, 1: -7}, what="map task 3")
    with pytest.raises(TerminalError, match=r"^map task 3 read 2 rows net in change ordinal 0 and hands on 1;"):
        tally(a=5, b=7).require({0: 1, 1: -7}, what="map task 3")


def test_rows_in_an_ordinal_that_nothing_was_read_for_are_made_up() -> None:
    with pytest.raises(TerminalError, match="read 0 rows net in change ordinal 2 and hands on 1"):
        tally(a=5, b=7).require({0: 2, 1: -7, 2: 1}, what="map task 3")


def test_a_file_that_was_not_read_to_its_end_is_named() -> None:
    with pytest.raises(TerminalError, match="read 0 of the 5 rows of a"):
        tally(b=7).require({0: 7, 1: -7}, what="map task 3")
    with pytest.raises(TerminalError, match="read 6 of the 7 rows of b"):
        tally(a=5, b=6).require({0: 1, 1: -6}, what="map task 3")
