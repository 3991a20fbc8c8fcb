from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icefloe.errors import TransientError
from icefloe.shuffle.block_file import SpilledRows
from support.missing import require_linux

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("word", pa.string())])


def numbered(first: int, count: int) -> pa.RecordBatch:
    ids = np.arange(first, first + count)
    return pa.RecordBatch.from_arrays([pa.array(ids), pa.array([f"word {number}" for number in ids])], schema=SCHEMA)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), max_size=9), max_size=6), st.sampled_from([0, 100, 1 << 20]))
def test_each_part_gives_its_rows_in_the_order_in_which_they_came(batches: list[list[int]], memory_bytes: int) -> None:
    expected: list[list[int]] = [[] for _ in range(5)]
    first = 0
    with SpilledRows(SCHEMA, 5, memory_bytes=memory_bytes) as spilled:
        for parts in batches:
            spilled.add(numbered(first, len(parts)), np.array(parts, np.int32))
            for number, part in enumerate(parts, start=first):
                expected[part].append(number)
            first += len(parts)
        for _ in range(2):  # a part may be read again
            found = [[row["id"] for batch in spilled.batches(part) for row in batch.to_pylist()] for part in range(5)]
            assert found == expected
        assert spilled.rows.tolist() == [len(ids) for ids in expected]
        assert [size > 0 for size in spilled.content_bytes] == [bool(ids) for ids in expected]


def test_rows_on_disk_have_no_name_that_a_killed_process_could_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    with SpilledRows(SCHEMA, 1, memory_bytes=0) as spilled:
        spilled.add(numbered(0, 100), np.zeros(100, np.int32))
        assert not [*tmp_path.iterdir()]


def test_a_disk_that_stays_full_is_named_when_its_file_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    require_linux()
    full = Path("/dev/full").open("w+b")  # noqa: SIM115 - closed with the rows
    monkeypatch.setattr("icefloe.shuffle.block_file.tempfile.TemporaryFile", lambda **_: full)
    spilled = SpilledRows(SCHEMA, 1, memory_bytes=0)
    with pytest.raises(TransientError, match=r"cannot be kept on local disk: .*No space left on device"), spilled:
        spilled.add(numbered(0, 100), np.zeros(100, np.int32))


def test_a_disk_that_is_gone_may_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    sentence = r"cannot be kept on local disk: .*; free space there, or set"
    with SpilledRows(SCHEMA, 1, memory_bytes=0) as spilled:
        tmp_path.rmdir()
        with pytest.raises(TransientError, match=sentence):
            spilled.add(numbered(0, 1), np.zeros(1, np.int32))
