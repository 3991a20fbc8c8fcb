from datetime import UTC, date, datetime

import pyarrow as pa

from icefloe.changes.plain_rows import plain_rows

DAY = pa.date32()
SCHEMA = pa.schema(
    [
        ("day", DAY), ("at", pa.timestamp("us")), ("instant", pa.timestamp("us", "UTC")), ("days", pa.list_(DAY)),
        ("place", pa.struct([("since", DAY)])), ("names", pa.map_(pa.string(), DAY)),
    ]
)  # fmt: skip


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
