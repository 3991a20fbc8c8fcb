"""Row filters mean what Spark's WHERE means, on tables that Spark writes with bounds, null counts and partitions."""

import pyarrow as pa
import pytest

from icefloe.iceberg.files.reader import FileReader
from icefloe.iceberg.filters.row_filter import RowFilter
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.scan.scan_tasks import file_condition
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.spark.spark_table import CreateTable, SparkTable

pytestmark = pytest.mark.spark

COLUMNS = (
    "id bigint NOT NULL, i int, d double, dec decimal(9, 2), s string, b boolean, day date, tz timestamp, "
    "place struct<zip: string, at: struct<x: int>>"
)
ROWS = (
    (
        "(1, 1, 0.5D, 1.50, 'a', true, DATE '1969-12-31', TIMESTAMP '1969-12-31T23:00:00Z', "
        "named_struct('zip', '1', 'at', named_struct('x', 7)))"
    ),
    (
        "(2, -2147483648, -0.0D, -9.99, 'ab', false, DATE '2024-02-29', TIMESTAMP '2024-02-29T12:30:00Z', "
        "named_struct('zip', null, 'at', null))"
    ),
    "(3, null, null, null, null, null, null, null, null)",
    (
        "(4, 2147483647, 0.0D, 0.00, '', true, DATE '2024-03-01', TIMESTAMP '2024-02-29T12:30:00.000001Z', "
        "named_struct('zip', '2', 'at', named_struct('x', null)))"
    ),
    "(5, 0, 1e300D, 9.00, 'ü', null, DATE '1970-01-01', TIMESTAMP '1970-01-01T00:00:00Z', null)",
)
FILTERS = (
    "true",
    "i = 0 OR i IS NULL",
    "i != 0",
    "i NOT IN (0)",
    "i NOT IN (0, 1)",
    "NOT (i IN (0, 1))",
    "NOT (i = 0 AND s = 'x')",
    "i < 3000000000",
    "NOT i > 3000000000",
    "i IN (1, 3000000000)",
    "i NOT IN (3000000000, 4000000000)",
    "i BETWEEN -5 AND 1",
    "NOT (i BETWEEN -5 AND 1)",
    "i <= -2147483648",
    "1 < i",
    "d = 0.0",
    "d IN (0.0, 7.0)",
    "d NOT IN (0.0, 7.0)",
    "d > 0.25 OR d IS NULL",
    "dec > 1.5",
    "dec IN (1.50, 9.00)",
    "dec <> 9",
    "s LIKE 'a%'",
    "s NOT LIKE 'a%'",
    "s LIKE '%'",
    "s > 'ab'",
    "s = ''",
    "b = true",
    "NOT (b = true)",
    "day >= '1970-01-01'",
    "day != '2024-02-29'",
    "tz > '2024-02-29T12:30:00+00:00'",
    "tz <= '2024-02-29T13:30:00+01:00'",
    "place IS NULL",
    "place.zip IS NULL",
    "place.at.x IS NOT NULL",
    "place.at.x = 7 OR place.zip != '1'",
    "NOT (place.at.x = 7)",
    "(i > 0 AND s IS NOT NULL) OR (NOT (dec < 0) AND day < '2024-01-01')",
)
PARTITIONINGS = (None, "truncate(10, i), s", "bucket(3, i), days(tz), truncate(1, s)", "months(day), b, bucket(2, dec)")


def passing(table: SparkTable, text: str) -> list[int]:
    """The ids of the rows that pass, of the files that cannot be left out."""
    loaded = table.load()
    schema = TableSchema.at(loaded.metadata, None)
    row_filter = RowFilter.parse(text, schema.columns, table=table.name)
    may_match, files = file_condition(row_filter), FileReader(io=loaded.io, table=table.name)
    reader, snapshot = LoadedTable(loaded).manifests, loaded.current_snapshot()
    assert snapshot is not None
    ids: list[int] = []
    for entry in (entry for manifest in reader.manifests(snapshot) for entry in reader.data_entries(manifest)):
        if may_match(entry):
            for _, batch in files.rows(entry.file, schema):
                ids += batch.column("id").filter(pa.array(row_filter.mask(batch))).to_pylist()
    return sorted(ids)


@pytest.mark.parametrize("partitioned_by", PARTITIONINGS)
def test_a_filter_passes_the_rows_of_spark_s_where(create_table: CreateTable, partitioned_by: str | None) -> None:
    table = create_table(COLUMNS, partitioned_by=partitioned_by)
    for row in ROWS if partitioned_by is None else [", ".join(ROWS)]:
        table.sql(f"INSERT INTO {{table}} VALUES {row}")
    aliased = ", ".join(f"({text}) AS f{number}" for number, text in enumerate(FILTERS))
    rows = table.sql(f"SELECT id, {aliased} FROM {{table}}").to_pylist()
    for number, text in enumerate(FILTERS):
        assert passing(table, text) == sorted(row["id"] for row in rows if row[f"f{number}"]), text
