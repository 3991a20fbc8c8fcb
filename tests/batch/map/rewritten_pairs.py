"""Random pairs of a data file and its rewrite: rows moved, changed, removed, added, doubled; columns evolved."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, DoubleType, ListType, LongType, MapType, NestedField, StringType, StructType

from batch.touched_files import touched_file
from icefloe.batch.rows.file_effects import FileEffects
from icefloe.batch.rows.row_reader import TableRowReader
from icefloe.batch.rows.row_shape import RowShape
from icefloe.checkpoint.batch_spec import Identity
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.tables.written_tables import reader as table_reader
from support.tables.written_tables import with_id

__all__ = ["Rewrite", "expected_weights", "reader", "row_key", "written_pair"]

SCHEMA_OF_TABLE: Final = Schema(
    NestedField(1, "key", LongType()),
    NestedField(2, "amount", DoubleType()),
    NestedField(3, "word", StringType()),
    NestedField(4, "price", DecimalType(20, 2)),
    NestedField(5, "marks", ListType(51, LongType())),
    NestedField(6, "place", StructType(NestedField(61, "x", DoubleType()), NestedField(62, "name", StringType()))),
    NestedField(7, "extra", MapType(71, StringType(), 72, LongType())),
)
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """The difference of the second file to the first one; equal numbers make equal files.

    Attributes:
        seed: of every random choice.
        rows: of the first file.
        keys: number of distinct keys.
        is_shuffled: True if the order is lost.
        changed: share of the rows that are changed.
        changed_column: place of the one column that changes; None: another one in each row.
        dropped: share of the rows that are removed.
        inserted: share of rows that are new.
        cut: share of the rows that are removed in one piece, from a random place on.
        is_evolved: True if the first file has an older schema: a narrower type, and another name.
        codec: of the second file.
        group_rows: rows of a row group, of each file.
    """

    seed: int
    rows: int
    keys: int
    is_shuffled: bool = False
    changed: float = 0.0
    changed_column: int | None = None
    dropped: float = 0.0
    inserted: float = 0.0
    cut: float = 0.0
    is_evolved: bool = False
    codec: str = "zstd"
    group_rows: tuple[int, int] = (7, 7)


def written_pair(folder: Path, rewrite: Rewrite) -> tuple[FileEffects, FileEffects, list[Row], list[Row]]:
    """The removed and the added file, and their rows."""
    random = Random(rewrite.seed)
    before = [_row(random, rewrite.keys) for _ in range(rewrite.rows)]
    after = [
        _changed(row, random, rewrite.changed_column) if random.random() < rewrite.changed else row for row in before
    ]
    after = [row for row in after if random.random() >= rewrite.dropped]
    if rewrite.cut:
        start = random.randrange(len(after) + 1)
        del after[start : start + round(rewrite.cut * rewrite.rows)]
    for _ in range(round(rewrite.inserted * rewrite.rows)):
        after.insert(random.randint(0, len(after)), _row(random, rewrite.keys))
    if rewrite.is_shuffled:
        random.shuffle(after)
    files = [folder / name for name in ("removed.parquet", "added.parquet")]
    _write(files[0], before, _schema(is_old=rewrite.is_evolved), group_rows=rewrite.group_rows[0], codec="zstd")
    _write(files[1], after, _schema(is_old=False), group_rows=rewrite.group_rows[1], codec=rewrite.codec)
    removed, added = (
        touched_file(str(path), len(rows), (0, weight))
        for path, rows, weight in zip(files, (before, after), (-1, 1), strict=True)
    )
    return removed, added, before, after


def reader(schema: Schema = SCHEMA_OF_TABLE) -> TableRowReader:
    """Reads the files."""
    identity = Identity(policy="pipeline", columns=("key",))
    shape = RowShape.of(TableSchema.of(schema), identity=identity, columns=None, filter_text=None, table="db.t")
    return TableRowReader(shape=shape, files=table_reader())


def expected_weights(before: Sequence[Row], after: Sequence[Row]) -> Mapping[Row, int]:
    """The rows that are left if equal rows cancel one for one, by Python's own counting."""
    weights = Counter(row_key(row) for row in after)
    weights.subtract(row_key(row) for row in before)
    return {row: weight for row, weight in weights.items() if weight}


def row_key(values: Any) -> Any:
    """Equal for values that are equal by the change model: NaN is NaN, 0.0 is -0.0, maps have no order."""
    if isinstance(values, float):
        return "NaN" if math.isnan(values) else values + 0.0
    if isinstance(values, dict):
        return tuple((name, row_key(value)) for name, value in values.items())
    if isinstance(values, list) and values and isinstance(values[0], tuple):
        return frozenset(values)
    if isinstance(values, list | tuple):
        return tuple(row_key(value) for value in values)
    return values


def _row(random: Random, keys: int) -> Row:
    def or_null(value: Any) -> Any:
        return None if random.random() < 0.1 else value

    return (
        or_null(random.randrange(keys)),
        or_null(random.choice([0.0, -0.0, math.nan, 1.5, random.random()])),
        or_null(random.choice(["", "a", "word", "a much longer text", f"w{random.randrange(keys)}"])),
        or_null(Decimal(random.randrange(400)) / 100),
        or_null([random.randrange(3) for _ in range(random.randrange(3))]),
        or_null({"x": or_null(random.choice([0.0, -0.0, math.nan])), "name": or_null("n")}),
        or_null(random.sample([("a", 1), ("b", 2)], random.randrange(3))),
    )


def _changed(row: Row, random: Random, column: int | None) -> Row:
    """The row with another value in one column, or one that only looks different."""
    column = random.randrange(len(row)) if column is None else column
    if column == 1 and row[1] == 0.0 and random.random() < 0.5:
        return (row[0], -row[1], *row[2:])
    return (*row[:column], _row(random, 5)[column], *row[column + 1 :])


def _schema(*, is_old: bool) -> pa.Schema:
    schema = schema_to_pyarrow(SCHEMA_OF_TABLE)
    if is_old:
        schema = schema.set(0, with_id(1, pa.field("was_key", pa.int32())))
        schema = schema.set(3, with_id(4, pa.field("price", pa.decimal128(9, 2))))
    return schema


def _write(path: Path, rows: Sequence[Row], schema: pa.Schema, *, group_rows: int, codec: str) -> None:
    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
    table = pa.Table.from_arrays(columns, schema=schema)
    pq.write_table(table, path, row_group_size=group_rows, compression=codec, store_schema=False)
