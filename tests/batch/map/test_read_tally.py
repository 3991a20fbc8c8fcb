from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap64

from batch.touched_files import touched_file
from icefloe.batch.map.hashed_rows import FileTally, ReadTally
from icefloe.batch.rows.file_effects import Effect, FileEffects, RowSet
from icefloe.batch.rows.row_reader import ReadRows
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


def test_rows_count_once_for_each_step_and_for_each_reading_of_their_file() -> None:
    found = tally(a=5, b=7)
    assert (found.rows_read, found.removed_rows, found.added_rows) == (12, 12, 7)
    for other in ({"constants": {"2": 1}}, {"first_row_id": 7}):
        again = replace(FILES[0], data_file=replace(FILES[0].data_file, **other))
        found = ReadTally([FILES[0], again])
        found.add_file(read(again, range(5)))
        with pytest.raises(TerminalError, match="read 0 of the 5 rows of a"):
            found.require({0: -5}, what="map task 3")
        found.add_file(read(FILES[0], range(5)))
        found.require({0: -10}, what="map task 3")


def test_of_a_file_with_deletes_only_the_touched_rows_count() -> None:
    gone = Effect(change_ordinal=1, weight=-1, rows=RowSet(positions=BitMap64([2, 3])))
    file = FileEffects(data_file=FILES[0].data_file, effects=(gone,))
    found = ReadTally([file])
    found.add_file(read(file, range(2, 4)))
    found.require({1: -2}, what="map task 3")
    found.add_file(read(file, range(5)))
    with pytest.raises(TerminalError, match="read 5 of the 2 rows of a"):
        found.require({1: -2}, what="map task 3")


@pytest.mark.parametrize(
    ("rows", "handed_on", "sentence"),
    [
        ({"a": 5, "b": 7}, {0: 2, 1: -7}, None),
        ({"a": 5, "b": 7}, {0: 1, 1: -7}, r"^map task 3 read 2 rows net in change ordinal 0 and hands on 1;"),
        ({"a": 5, "b": 7}, {0: 2, 1: -7, 2: 1}, "read 0 rows net in change ordinal 2 and hands on 1"),
        ({"b": 7}, {0: 7, 1: -7}, "read 0 of the 5 rows of a"),
        ({"a": 5, "b": 6}, {0: 1, 1: -6}, "read 6 of the 7 rows of b"),
    ],
)
def test_rows_handed_on_must_have_the_signed_count_of_the_rows_read(
    rows: dict[str, int], handed_on: dict[int, int], sentence: str | None
) -> None:
    with nullcontext() if sentence is None else pytest.raises(TerminalError, match=sentence):
        tally(**rows).require(handed_on, what="map task 3")
