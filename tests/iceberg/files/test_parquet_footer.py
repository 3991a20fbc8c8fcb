"""Footers that Arrow cannot look at without ending the process."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe.iceberg.files.parquet_footer import check_chunks
from icefloe.iceberg.unreadable import UndecodableError
from support.pipelines.workspace import python

NESTED = pa.table({"id": [1, 2], "text": ["a", None], "list": [[{"a": 1, "b": [1, None]}], None]})
OPENING = (
    "import sys; from icefloe.iceberg.files.parquet_file import ParquetRows as rows; "
    "rows.open(sys.argv[1], batch_rows=10, pre_buffer=False, dictionary_columns=False)"
)
LOOKING = "import sys, pyarrow.parquet as pq; pq.ParquetFile(sys.argv[1]).metadata.row_group(0).column(0)"


def footer_of(path: Path) -> pq.FileMetaData:
    return pq.ParquetFile(path).metadata


@pytest.mark.parametrize(
    "options", [{}, {"row_group_size": 1}, {"write_statistics": False}, {"version": "1.0"}], ids=str
)
def test_a_footer_that_arrow_wrote_is_fit(tmp_path: Path, options: dict[str, Any]) -> None:
    pq.write_table(NESTED, tmp_path / "file", **options)
    check_chunks(footer_of(tmp_path / "file"))


def test_a_histogram_that_does_not_fit_its_column_is_damage(tmp_path: Path) -> None:
    # A list of the two numbers 0 and 2, one for each level, becomes a list of the number 2, in as many bytes.
    histogram, damaged = b"\x19\x26\x00\x04", b"\x19\x16\x84\x00"
    path = tmp_path / "file"
    pq.write_table(NESTED.select(["id"]), path)
    content = path.read_bytes()
    assert content.count(histogram) == 1
    path.write_bytes(content.replace(histogram, damaged))
    with pytest.raises(UndecodableError, match="the level histogram of a column chunk of id does not fit its column"):
        check_chunks(footer_of(path))
    opened = python(["-c", OPENING, str(path)])
    assert (opened.code, "UndecodableError: the level histogram" in opened.err) == (1, True), opened
    # Without the check the process ends; an Arrow that raises an error instead makes the check needless.
    ended = subprocess.run([sys.executable, "-c", LOOKING, path], capture_output=True, check=False)
    assert ended.returncode < 0, ended
