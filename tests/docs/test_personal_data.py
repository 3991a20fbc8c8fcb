"""The places of row values at rest, as in docs/operations.md."""

import logging
import shutil
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from support.pipelines.flights import Flights
from support.pipelines.workspace import icefloe

PLANTED = "planted-6c1f"


def test_row_values_are_in_parts_data_files_and_extents_alone(
    flights: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    flights.write_pipeline("flights")
    flights.lake.append((1, PLANTED), (2, "UA"))
    found = flights.files_before_cleanup("flights", is_damaged=False)
    flights.lake.replace_carrier(1, "DL")
    files = kept_before_cleanup(flights)
    assert {Path(name).suffix for name in {*found, *files}} >= {".json", ".data", ".extents", ".parquet"}
    for name, content in files.items():
        if Path(name).suffix not in (".data", ".extents", ".parquet"):
            assert PLANTED.encode() not in content, name
    assert PLANTED not in caplog.text
    assert "flights" in caplog.text

    parts = sorted((flights.folder / "flights" / "changes").rglob("*.parquet"))
    carriers = [value for part in parts for value in pq.ParquetFile(part).read()["carrier"].to_pylist()]
    assert carriers.count(PLANTED) == 2, "the insert, and the image before the update"


def kept_before_cleanup(flights: Flights) -> dict[str, bytes]:
    """The files of a batch, read before any of them is removed."""
    kept: dict[str, bytes] = {}
    top = flights.folder / "flights"
    flights.files_before_cleanup(
        "flights", is_damaged=False, look=lambda names: kept.update({name: (top / name).read_bytes() for name in names})
    )
    return kept


def test_verify_reports_a_part_with_an_erased_row(followed: Flights) -> None:
    assert icefloe("verify", "flights").code == 0
    [part] = (followed.folder / "flights" / "changes" / "batch=1").glob("*.parquet")
    rows = pq.ParquetFile(part).read()
    pq.write_table(rows.filter(pc.not_equal(rows["carrier"], "UA")), part)
    told = icefloe("verify", "flights")
    assert told.code == 65
    assert "batch 1" in told.err


def test_a_batch_whose_folder_was_deleted_ends_verify_and_nothing_else(followed: Flights) -> None:
    shutil.rmtree(followed.folder / "flights" / "changes" / "batch=0")
    assert "_manifest.json" in icefloe("verify", "flights").sentence
    followed.lake.append((3, "B6"))
    assert icefloe("run", "flights").code == 0
