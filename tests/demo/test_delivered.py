import json
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from demo.delivered import Delivered

FLIGHT = {"carrier": "UA", "flight": 12, "origin": "EWR", "dest": "IAH"}


@pytest.fixture
def delivered(tmp_path: Path) -> Delivered:
    """One batch: three updates in step 0, a delete and an insert in step 1, in two parts; and a part that lost."""
    changes = [
        *[change(0, kind, flight_id, delay) for flight_id in (1, 2, 3) for kind, delay in UPDATE],
        change(1, "DELETE", 4, 0),
        change(1, "INSERT", 5, 0),
    ]
    folder = tmp_path / "batch=0"
    folder.mkdir()
    for name, rows in (("part-00000.parquet", changes[:6]), ("part-00001.parquet", changes[6:]), ("lost", changes)):
        pq.write_table(pa.Table.from_pylist(rows), folder / name)
    manifest = {"parts": [{"names": ["part-00000.parquet"]}, {"names": ["part-00001.parquet"]}]}
    (folder / "_manifest.json").write_text(json.dumps(manifest))
    return Delivered(tmp_path)


UPDATE = (("UPDATE_BEFORE", 5), ("UPDATE_AFTER", None))


def change(ordinal: int, kind: str, flight_id: int, delay: int | None) -> dict[str, object]:
    ours = {"_batch": 0, "_change_type": kind, "_change_ordinal": ordinal, "_commit_snapshot_id": 9}
    return {**ours, "flight_id": flight_id, **FLIGHT, "arr_delay": delay}


def test_the_changes_are_counted_in_the_parts_that_the_manifest_names(delivered: Delivered) -> None:
    assert delivered.counts(0) == {"UPDATE_BEFORE": 3, "UPDATE_AFTER": 3, "DELETE": 1, "INSERT": 1}


def test_a_sample_shows_some_of_each_kind_and_both_images_of_an_update_side_by_side(delivered: Delivered) -> None:
    printed = StringIO()
    Console(file=printed, width=80).print(delivered.sample(range(1), each=2))
    rows = [line.split() for line in printed.getvalue().splitlines() if "UA" in line]
    flight = ["UA", "12", "EWR-IAH"]
    assert rows == [
        ["0", "0", "UPDATE", "1", *flight, "arr_delay", "5", "null"],
        ["0", "0", "UPDATE", "2", *flight, "arr_delay", "5", "null"],
        ["0", "1", "DELETE", "4", *flight],
        ["0", "1", "INSERT", "5", *flight],
    ]
