"""The reach of a query of a check, and the values that it sees."""

import datetime as dt
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import duckdb
import pyarrow as pa
import pytest

from icefloe.batch.deliver.check_batch import _Changes, _connected
from icefloe.errors import TransientError
from icefloe.storage.local_folders import on_local_disk

ROWS = pa.record_batch({"id": pa.array([1, 2, 3]), "name": pa.array(["a", None, "c"])})


@contextmanager
def opened(folder: Path, *rows: pa.RecordBatch, memory_bytes: int = 2**27) -> Iterator[_Changes]:
    """The changes as a check sees them."""
    file = folder / "changes"
    with _connected(file, memory_bytes=memory_bytes) as changes:
        changes.create(rows[0].schema)
        for each in rows:
            changes.insert(each)
        changes.run("COMMIT")
    with _connected(file, memory_bytes=memory_bytes, only_reads=True) as changes:
        changes.lock()
        yield changes


ATTACKS = [
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM '{secret}'",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM read_parquet('http://127.0.0.1:9/x.parquet')",
    "SELECT * FROM ROWS",
    "SELECT * FROM query('SELECT * FROM read_text(''{secret}'')')",
    "COPY changes TO '{copy}'",
    "ATTACH '{copy}' AS other",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET memory_limit = '900GB'",
    "PRAGMA enable_external_access",
    "DELETE FROM changes RETURNING id",
    "WITH gone AS (DELETE FROM changes RETURNING id) SELECT * FROM gone",
    "CREATE TABLE other AS SELECT 1",
    "SELECT 1; SELECT 2",
    "",
    "-- nothing",
]


@pytest.mark.parametrize("query", ATTACKS)
def test_a_query_reaches_nothing_but_the_changes_and_changes_nothing(tmp_path: Path, query: str) -> None:
    secret, copy, home = tmp_path / "secret.csv", tmp_path / "copy", tmp_path / "home"
    secret.write_text("word\nxyzzy\n")
    home.mkdir()
    with opened(home, ROWS) as changes:
        found = changes.wrong_rows(query.format(secret=secret, copy=copy))
        assert found.error is not None, found
        assert "xyzzy" not in str(found)
        assert changes.wrong_rows("SELECT id FROM changes").rows == 3
    assert not copy.exists()


def test_a_query_may_use_the_changes_often_and_its_first_rows_are_shown(tmp_path: Path) -> None:
    more = pa.record_batch({"id": pa.array(range(4, 5000)), "name": pa.array(["x" * 1000] * 4996)})
    with opened(tmp_path, ROWS, more) as changes:
        found = changes.wrong_rows(
            "SELECT id, b.name FROM changes JOIN changes b USING (id) WHERE id IN (SELECT id FROM changes) ORDER BY 1"
        )
    assert (found.rows, len(found.samples), found.error) == (4999, 5, None)
    assert [each["id"] for each in found.samples] == ["1", "2", "3", "4", "5"]
    assert [each["name"] for each in found.samples[:3]] == ["a", None, "c"]
    assert len(found.samples[3]["name"] or "") == 200


VALUES: dict[str, tuple[pa.Array, str, str]] = {
    "decimal": (pa.array([Decimal("12345678901234567890123456789.123456789")], pa.decimal128(38, 9)),
                "c > 12345678901234567890123456789", "12345678901234567890123456789.123456789"),
    "uuid": (pa.array([bytes(range(16))], pa.binary(16)), "hex(c) LIKE '000102%'", str(bytes(range(16)))),
    "binary": (pa.array([b"\xff\x00"], pa.large_binary()), "octet_length(c) = 2", r"b'\xff\x00'"),
    "zone": (pa.array([dt.datetime(2024, 3, 1, 23, 30, tzinfo=dt.UTC)], pa.timestamp("us", "UTC")),
             "c::DATE = '2024-03-01'", "2024-03-01 23:30:00+00:00"),
    "no zone": (pa.array([dt.datetime(1, 1, 1)], pa.timestamp("us")), "year(c) = 1", "0001-01-01 00:00:00"),
    "nanoseconds": (pa.array([1], pa.timestamp("ns")), "c > '1970-01-01'", "1970-01-01 00:00:00.000000001"),
    "far day": (pa.array([2932897], pa.date32()), "year(c) = 10000", "10000-01-01"),
    "time": (pa.array([dt.time(1, 2, 3, 4)]), "hour(c) = 1", "01:02:03.000004"),
    "list": (pa.array([[{"a": [1, None]}]]), "len(c[1].a) = 2", "[{'a': [1, None]}]"),
    "map": (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())), "c['k'] = 1", "[('k', 1)]"),
    "not a number": (pa.array([float("nan")]), "isnan(c)", "nan"),
    "truth": (pa.array([True]), "c", "True"),
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_each_type_can_be_asked_for_and_shown(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    values, condition, shown = VALUES[kind]
    nulls = pa.record_batch({"c": pa.nulls(1, values.type)})
    with opened(tmp_path, pa.record_batch({"c": values}), nulls) as changes:
        found = changes.wrong_rows(f"SELECT c FROM changes WHERE {condition}")
        # Pandas, if it is there, writes nanoseconds without the T.
        [sample] = found.samples
        assert (found.rows, str(sample["c"]).replace("T", " " if kind == "nanoseconds" else "T"), found.error) == (
            1,
            shown,
            None,
        )
        assert changes.wrong_rows("SELECT c FROM changes WHERE c IS NULL").samples == ({"c": None},)


def test_an_error_in_the_middle_of_a_query_is_its_result(tmp_path: Path) -> None:
    with opened(tmp_path, ROWS) as changes:
        found = changes.wrong_rows("SELECT name::INTEGER FROM changes")
    assert (found.rows, "Could not convert string 'a' to INT32" in str(found.error)) == (0, True)


def test_an_error_after_many_rows_is_the_result_of_the_query_too(tmp_path: Path) -> None:
    late = pa.record_batch({"name": ["1"] * 290_000 + ["secret"] + ["1"] * 9_999})
    with on_local_disk("no disk is full"), opened(tmp_path, late) as changes:
        found = changes.wrong_rows("SELECT name::INTEGER FROM changes")
    assert (found.samples, "Could not convert string 'secret' to INT32" in str(found.error)) == ((), True)


def test_a_disk_that_is_full_after_many_rows_is_no_result(tmp_path: Path) -> None:
    """Arrow says it of the reader, and a second try does not see it."""

    def full() -> Iterator[pa.RecordBatch]:
        yield ROWS
        raise OSError("IO Error: no room")

    with opened(tmp_path, ROWS) as changes:
        connection = changes._connection
        ending: Any = create_autospec(connection, instance=True)
        ending.extract_statements.side_effect = connection.extract_statements
        ending.execute.side_effect = connection.execute
        ending.sql.return_value.to_arrow_reader.return_value = full()
        changes._connection = ending
        with pytest.raises(OSError, match="no room"):
            changes.wrong_rows("FROM changes")


class TimeLimitError(Exception):
    """As Airflow raises one into a task."""


def test_an_error_that_a_signal_raises_ends_a_query_that_would_run_for_ever(tmp_path: Path) -> None:
    endless = "SELECT count(*) FROM range(100000000000) a, range(100000000000) b WHERE a.range % 7 = b.range % 11"

    def end(*_: object) -> None:
        raise TimeLimitError

    before = signal.signal(signal.SIGUSR1, end)
    try:
        with opened(tmp_path, ROWS) as changes:
            begun = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1))
            begun.start()
            with pytest.raises(TimeLimitError):
                changes.wrong_rows(endless)
            assert changes.wrong_rows("SELECT id FROM changes").rows == 3
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_more_changes_than_the_memory_are_sorted_and_grouped_on_the_disk(tmp_path: Path) -> None:
    text = pa.array([f"{number:>200}" for number in range(20_000)])
    parts = [pa.record_batch({"id": pa.array([part] * len(text)), "text": text}) for part in range(25)]
    with opened(tmp_path, *parts, memory_bytes=2**20) as changes:
        found = changes.wrong_rows("SELECT text, count(*) AS n FROM changes GROUP BY text HAVING n <> 25")
        assert (found.rows, found.error) == (0, None)
        assert changes.wrong_rows("SELECT * FROM changes ORDER BY text, id").rows == 500_000


def large_texts(rows: int, size: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(range(rows)), "text": [os.urandom(size // 2).hex() for _ in range(rows)]})


def test_more_large_texts_than_the_memory_are_kept(tmp_path: Path) -> None:
    parts = [large_texts(500, 30_000) for _ in range(8)]
    with on_local_disk("they cannot be kept"), opened(tmp_path, *parts, memory_bytes=2**20) as changes:
        found = changes.wrong_rows("SELECT count(*) AS n FROM changes GROUP BY id HAVING n <> 8")
        assert (found.rows, found.error) == (0, None)


def test_a_commit_that_fails_is_an_error_of_the_disk(tmp_path: Path) -> None:
    """DuckDB also says so of memory: here of texts in one row group."""
    said = pytest.raises(TransientError, match=r"cannot be kept: .*Failed to commit")
    with said, on_local_disk("they cannot be kept"), opened(tmp_path, large_texts(90, 2**20), memory_bytes=2**20):
        pass


def test_a_disk_that_is_full_may_be_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: _Changes, query: str) -> None:
        raise duckdb.IOException(f"IO Error: no room for {query}")

    monkeypatch.setattr(_Changes, "_found", full)
    said = pytest.raises(TransientError, match="cannot be kept: IO Error: no room for x; free space")
    with said, on_local_disk("they cannot be kept"), opened(tmp_path, ROWS) as changes:
        changes.wrong_rows("x")
