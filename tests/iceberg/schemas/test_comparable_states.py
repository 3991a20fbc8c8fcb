from collections.abc import Mapping
from contextlib import nullcontext
from datetime import date, datetime
from pathlib import Path

import pytest
from pyiceberg.types import (
    DateType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

from icefloe.errors import TerminalError
from icefloe.iceberg.schemas.table_schema import require_comparable_states
from support.tables.replaced_tables import table_of_schemas

STRUCT = StructType(NestedField(10, "a", IntegerType()), NestedField(11, "b", StringType()))
PROMOTED = StructType(NestedField(10, "a", LongType()), NestedField(12, "c", StringType()))
CHANGED = StructType(NestedField(10, "a", StringType()))


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({1: IntegerType()}, {1: IntegerType(), 2: StringType()}),
        ({1: IntegerType()}, {1: LongType()}),
        ({1: LongType()}, {1: IntegerType()}),
        ({1: STRUCT}, {1: PROMOTED}),
        ({1: StringType()}, {2: IntegerType()}),
    ],
)
def test_columns_that_schema_evolution_can_lead_to_pass(
    tmp_path: Path, was: Mapping[int, IcebergType], now: Mapping[int, IcebergType]
) -> None:
    table, (start, end) = table_of_schemas(tmp_path, was, now)
    require_comparable_states(table.metadata, start, end, table="db.events")


@pytest.mark.parametrize(
    ("was", "now", "column"),
    [
        ({1: IntegerType()}, {1: StringType()}, r"'c1' is string at snapshot \d+ and was int at snapshot"),
        ({1: STRUCT}, {1: StringType()}, "'c1' is string"),
        ({1: STRUCT}, {1: CHANGED}, r"'c1\.a' is string at snapshot \d+ and was int"),
        ({1: STRUCT}, {1: ListType(20, IntegerType())}, "'c1' is list<int>"),
    ],
)
def test_a_column_that_became_something_else_is_named(
    tmp_path: Path, was: Mapping[int, IcebergType], now: Mapping[int, IcebergType], column: str
) -> None:
    table, (start, end) = table_of_schemas(tmp_path, was, now)
    with pytest.raises(
        TerminalError, match=rf"^table db\.events was replaced by one with another schema: column {column}"
    ):
        require_comparable_states(table.metadata, start, end, table="db.events")


def test_a_column_whose_initial_default_differs_is_named(tmp_path: Path) -> None:
    for number, (was, now, is_refused) in enumerate(
        [(5, 5, False), (5, 7, True), (5, None, True), (None, 5, True), (float("nan"), float("nan"), False)]
    ):
        kind = IntegerType() if isinstance(was or now, int) else DoubleType()
        folder, defaults = tmp_path / str(number), ({1: was}, {1: now})
        table, (start, end) = table_of_schemas(folder, {1: kind}, {1: kind}, defaults=defaults)
        sentence = f"column 'c1' has another initial default at snapshot {end} than it had at snapshot {start}, so"
        with pytest.raises(TerminalError, match=sentence) if is_refused else nullcontext():
            require_comparable_states(table.metadata, start, end, table="db.events")


def test_a_default_that_was_promoted_with_its_column_is_the_same(tmp_path: Path) -> None:
    table, (start, end) = table_of_schemas(
        tmp_path, {1: DateType()}, {1: TimestampType()},
        defaults=({1: date(2024, 2, 29)}, {1: datetime(2024, 2, 29)}),
    )  # fmt: skip
    require_comparable_states(table.metadata, start, end, table="db.events")
    require_comparable_states(table.metadata, end, start, table="db.events")
