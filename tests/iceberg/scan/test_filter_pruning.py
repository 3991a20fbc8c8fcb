import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    UUIDType,
)

from iceberg.filtered_files import described
from iceberg.filtered_rows import FILTERS, SCHEMA, Filter, rows
from icefloe.iceberg.data_file import constant_to_json
from icefloe.iceberg.files.reader import read_data_file
from icefloe.iceberg.filters.row_filter import RowFilter
from icefloe.iceberg.manifests.manifest_entries import DataEntry
from icefloe.iceberg.manifests.manifest_reader import ManifestReader
from icefloe.iceberg.scan.filter_pruning import FilterPruning
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.tables.written_tables import create_table

SPECS: tuple[tuple[tuple[str, Transform[Any, Any]], ...], ...] = (
    (),
    (("s", IdentityTransform()), ("b", IdentityTransform())),
    (("day", IdentityTransform()), ("at", IdentityTransform()), ("tz", IdentityTransform())),
    (("dec", IdentityTransform()),),
    (("i", TruncateTransform(10)), ("s", TruncateTransform(1))),
    (("l", BucketTransform(4)), ("s", BucketTransform(3))),
    (("at", DayTransform()), ("day", MonthTransform())),
    (("tz", HourTransform()), ("dec", BucketTransform(3))),
    (("day", YearTransform()), ("at", YearTransform()), ("i", VoidTransform())),
)
Files = list[tuple[DataEntry, list[pa.RecordBatch]]]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Rows under every spec in many files, and then with wider types."""
    table = create_table(tmp_path_factory.mktemp("pruned"), SCHEMA)
    for number, fields in enumerate(SPECS):
        with table.update_spec() as update:
            for field in table.spec().fields:
                update.remove_field(field.name)
            for column, transform in fields:
                update.add_field(column, transform, f"p{number}_{column}")
        for start in range(0, 130, 65 if fields else 10):
            table.append(rows().slice(start, 65 if fields else 10))
    with table.update_schema() as update:
        update.update_column("i", field_type=LongType())
        update.update_column("dec", field_type=DecimalType(20, 2))
        update.rename_column("s", "text")
    with table.update_schema() as update:
        update.add_column("s", StringType())
    return table


@pytest.fixture(scope="module")
def files(table: Table) -> Files:
    schema = TableSchema.at(table.metadata, None)
    return [
        (entry, [batch for _, batch in read_data_file(entry.data_file, schema=schema, io=table.io, table="db.t")])
        for entry in entries(table)
    ]


def entries(table: Table) -> Iterable[DataEntry]:
    reader = ManifestReader(table)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [entry for manifest in reader.manifests(snapshot) for entry in reader.data_entries(manifest)]


def pruned(text: str, table: Table, files: Files) -> int:
    """The number of files that are left out; fails if one of them has a row that passes."""
    row_filter = RowFilter.parse(text, table.schema(), table="db.t")
    pruning = FilterPruning(row_filter, table.metadata.specs())
    left_out = [batches for entry, batches in files if not pruning.may_match(entry)]
    assert not any(row_filter.mask(batch).any() for batches in left_out for batch in batches), text
    return len(left_out)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(found=FILTERS, is_renamed=st.booleans())
def test_no_file_with_a_row_that_passes_is_left_out(
    table: Table, files: Files, found: Filter, is_renamed: bool
) -> None:
    text = re.sub(r"\bs\b", "text", found.text) if is_renamed else found.text
    pruned(text, table, files)


@pytest.mark.parametrize(
    ("text", "at_least"),
    [
        ("i = 7", 20),
        ("text = 'ab'", 20),
        ("text like 'a%'", 20),
        ("text not like 'a%'", 4),
        ("f > 0.25", 4),
        ("f != 0.5", 1),
        ("day = '2024-02-29'", 10),
        ("at < '1970-01-01T00:00:00'", 10),
        ("tz = '2024-02-29T12:30:00+00:00'", 10),
        ("dec > 1.5", 10),
        ("u = 'f79c3e09-677c-4bbd-a479-3f349cb785e7'", 3),
        ("text is null", 5),
        ("i is not null", 1),
        ("place.in.x = 7", 3),
        ("l = 4", 3),
        ("i < 0", 1),
        ("false", 50),
    ],
)
def test_files_are_left_out_by_partition_and_by_bounds(table: Table, files: Files, text: str, at_least: int) -> None:
    assert pruned(text, table, files) >= at_least


def test_true_leaves_no_file_out(table: Table, files: Files) -> None:
    assert pruned("true", table, files) == 0
    assert pruned("s is null", table, files) == 0


def may_match(text: str, kind: Any, *arguments: Any, **options: Any) -> bool:
    schema = Schema(NestedField(1, "c", kind, required=False, initial_default=options.pop("default", None)))
    row_filter = RowFilter.parse(text, schema, table="db.t")
    return FilterPruning(row_filter, {0: PartitionSpec()}).may_match(described(*arguments, **options))


def test_bounds_of_before_a_promotion_still_prune() -> None:
    seven, nine = (7).to_bytes(4, "little"), (9).to_bytes(4, "little")
    assert not may_match("c > 9", LongType(), seven, nine)
    assert may_match("c >= 9", LongType(), seven, nine)
    half = b"\x00\x00\x00\x3f"
    assert not may_match("c < 0.5", DoubleType(), half, half)
    assert may_match("c = 0.5", DoubleType(), half, half)
    assert not may_match("c > 9.00", DecimalType(20, 2), b"\x01", b"\x03\x84")
    assert may_match("c = 9.00", DecimalType(20, 2), b"\x01", b"\x03\x84")


def test_bounds_that_do_not_compare_prune_nothing() -> None:
    day = (10).to_bytes(4, "little")
    assert may_match("c = '2024-02-29T00:00:00'", TimestampType(), day, day)
    nan = b"\x00\x00\xc0\x7f"
    assert may_match("c = 1.5", FloatType(), nan, nan)


def test_a_float_that_the_literal_is_nearest_to_is_found() -> None:
    tenth = b"\xcd\xcc\xcc\x3d"
    assert may_match("c = 0.1", FloatType(), tenth, tenth)
    assert may_match("c in (0.1, 7.0)", FloatType(), tenth, tenth)
    assert not may_match("c > 0.1", FloatType(), tenth, tenth)


def test_bounds_say_nothing_of_nan() -> None:
    one = b"\x00\x00\x80\x3f"
    for text in ("c is nan", "not (c <= 1.0)", "c != 1.0"):
        assert may_match(text, FloatType(), one, one)


def test_text_that_was_cut_inside_a_character_is_compared_by_its_bytes() -> None:
    assert may_match("c = 'ü'", StringType(), "ü".encode()[:1], b"\xc4")
    assert not may_match("c = 'z'", StringType(), "ü".encode()[:1], b"\xc4")


def test_a_beginning_is_compared_with_the_beginning_of_the_bounds() -> None:
    assert may_match("c like 'a%'", StringType(), b"ab", b"ab")
    assert not may_match("c like 'b%'", StringType(), b"ab", b"ac")
    assert not may_match("c not like 'a%'", StringType(), b"ab", b"ac")
    assert may_match("c not like 'ab%'", StringType(), b"ab", b"ac")


def test_null_counts_prune() -> None:
    assert not may_match("c is null", IntegerType(), nulls=0)
    assert may_match("c is null", IntegerType(), nulls=1)
    for text in ("c is not null", "c = 1", "c != 1", "c not in (1, 2)"):
        assert not may_match(text, IntegerType(), nulls=2)
        assert may_match(text, IntegerType(), nulls=1)
        assert may_match(text, IntegerType())


def test_a_file_without_the_column_is_never_left_out() -> None:
    for text in ("c = 5", "c is null", "c is not null"):
        assert may_match(text, IntegerType(), default=5)


def test_the_constant_of_an_identity_partition_decides() -> None:
    for text, expected in {
        "c = 5": True,
        "c != 5": False,
        "c > 5": False,
        "c not in (5, 6)": False,
        "c is null": False,
    }.items():
        assert may_match(text, IntegerType(), constants={"1": 5}) is expected
    assert may_match("c is null", IntegerType(), constants={"1": None})
    assert not may_match("c = 5", IntegerType(), constants={"1": None})
    assert may_match("c != 5.5", DoubleType(), constants={"1": "NaN"})
    assert may_match("c > 1" + "0" * 39, FloatType(), constants={"1": "Infinity"})


def test_a_uuid_is_compared_with_a_constant_but_not_with_bounds() -> None:
    uuid, other = "f79c3e09-677c-4bbd-a479-3f349cb785e7", "00000000-0000-0000-0000-000000000000"
    assert may_match(f"c = '{uuid}'", UUIDType(), constants={"1": uuid})
    assert not may_match(f"c = '{other}'", UUIDType(), constants={"1": uuid})
    assert may_match(f"c = '{other}'", UUIDType(), UUID(uuid).bytes, UUID(uuid).bytes)


def test_a_day_is_a_date_or_a_number_of_days_and_none_of_a_timestamp() -> None:
    for constant in ("2024-02-29", 19782):
        assert may_match("c = '2024-02-29'", DateType(), constants={"1": constant})
        assert not may_match("c = '2024-03-01'", DateType(), constants={"1": constant})
    assert may_match("c = '2024-03-01T00:00:00'", TimestampType(), constants={"1": "2024-02-29"})


def test_partition_values_of_another_number_than_the_spec_s_prune_nothing() -> None:
    schema = Schema(NestedField(1, "c", IntegerType(), required=False))
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(2), "c_bucket"))
    pruning = FilterPruning(RowFilter.parse("c = 1", schema, table="db.t"), {0: spec})
    assert pruning.may_match(described())


@pytest.mark.parametrize("text", ["c > '9999-12-31'", "c < '0001-01-01'"])
def test_a_filter_next_to_the_last_year_of_python_leaves_no_partition_of_years_out(text: str) -> None:
    schema = Schema(NestedField(1, "c", DateType(), required=False))
    spec = PartitionSpec(PartitionField(1, 1000, YearTransform(), "part"), spec_id=3)
    pruning = FilterPruning(RowFilter.parse(text, schema, table="db.t"), {3: spec})
    assert pruning.may_match(replace(described(), partition=(3, (30_000,))))


@pytest.mark.parametrize(("hours", "may"), [(-1_732_919_508, True), (1_800_000_000, True), (1_732_919_507, False)])
def test_hours_that_may_have_begun_again_leave_no_partition_out(hours: int, may: bool) -> None:
    schema = Schema(NestedField(1, "c", TimestampType(), required=False))
    spec = PartitionSpec(PartitionField(1, 1000, HourTransform(), "part"), spec_id=3)
    pruning = FilterPruning(RowFilter.parse("c < '1999-01-01T00:00:00'", schema, table="db.t"), {3: spec})
    assert pruning.may_match(replace(described(), partition=(3, (hours,)))) is may


TIMES: tuple[Transform[Any, Any], ...] = (HourTransform(), DayTransform(), MonthTransform(), YearTransform())


def partition_may_match(text: str, kind: PrimitiveType, transform: Transform[Any, Any], value: int) -> bool:
    schema = Schema(NestedField(1, "c", kind, required=False))
    spec = PartitionSpec(PartitionField(1, 1000, transform, "part"), spec_id=3)
    constant = constant_to_json(transform.result_type(kind), value)
    pruning = FilterPruning(RowFilter.parse(text, schema, table="db.t"), {3: spec})
    return pruning.may_match(replace(described(), partition=(3, (constant,))))


@pytest.mark.parametrize("transform", TIMES, ids=str)
@pytest.mark.parametrize(
    "text", ["c < '1970-01-01T00:00:00'", "c = '1969-12-31T23:30:00'", "c <= '1969-12-31T23:30:00'"]
)
def test_times_before_1970_that_old_writers_rounded_up_are_found(text: str, transform: Transform[Any, Any]) -> None:
    found = [value for value in (-1, 0, 1) if partition_may_match(text, TimestampType(), transform, value)]
    assert found == [-1, 0]


def test_days_of_dates_were_never_rounded() -> None:
    for transform, expected in ((DayTransform(), False), (MonthTransform(), True), (YearTransform(), True)):
        assert partition_may_match("c < '1970-01-01'", DateType(), transform, 0) is expected
