from datetime import UTC, date, datetime
from typing import Final

import pyarrow as pa
import pytest

from icefloe.changes.columns import plain_rows
from support.pipelines.workspace import python

DAY = pa.date32()
SCHEMA = pa.schema(
    [
        ("day", DAY), ("at", pa.timestamp("us")), ("instant", pa.timestamp("us", "UTC")), ("days", pa.list_(DAY)),
        ("place", pa.struct([("since", DAY)])), ("names", pa.map_(pa.string(), DAY)),
    ]
)  # fmt: skip

WITHOUT_PANDAS: Final = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
import pyarrow as pa
from icefloe.changes.columns import plain_rows

at = pa.array([1_709_175_845_000_000_001, 1_709_175_845_000_001_000, None], pa.timestamp("ns"))
zoned = at.cast(pa.timestamp("ns", "UTC"))
times = pa.ListArray.from_arrays([0, 1, 2, 3], at)
for row in plain_rows(pa.table({"at": at, "zoned": zoned, "times": times})):
    print(*map(str, row.values()), sep="|")
"""


def test_nanoseconds_are_text_on_a_machine_without_pandas() -> None:
    done = python(["-c", WITHOUT_PANDAS])
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "2024-02-29T03:04:05.000000001|2024-02-29T03:04:05.000000001Z|['2024-02-29T03:04:05.000000001']",
        "2024-02-29 03:04:05.000001|2024-02-29 03:04:05.000001+00:00|[datetime.datetime(2024, 2, 29, 3, 4, 5, 1)]",
        "None|None|[None]",
    ]


def test_text_that_is_no_utf_8_is_not_taken_for_a_time() -> None:
    damaged = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    with pytest.raises(UnicodeDecodeError):
        plain_rows(pa.table({"word": damaged}))


def test_years_that_python_does_not_have_are_text_at_any_depth_and_other_values_stay() -> None:
    near, far, none = 0, 2**31 - 1, None
    rows = [
        {"day": day, "at": at, "instant": at, "days": [day, None], "place": {"since": day}, "names": [("a", day)]}
        for day, at in ((near, 0), (far, 2**63 - 1), (none, None))
    ]
    text, moment = "5881580-07-11", "294247-01-10T04:00:54.775807"
    epoch, start = date(1970, 1, 1), datetime(1970, 1, 1)
    assert plain_rows(pa.RecordBatch.from_pylist(rows, SCHEMA)) == [
        {"day": epoch, "at": start, "instant": start.replace(tzinfo=UTC), "days": [epoch, None],
         "place": {"since": epoch}, "names": [("a", epoch)]},
        {"day": text, "at": moment, "instant": f"{moment}Z", "days": [text, None], "place": {"since": text},
         "names": [("a", text)]},
        {"day": None, "at": None, "instant": None, "days": [None, None], "place": {"since": None},
         "names": [("a", None)]},
    ]  # fmt: skip
