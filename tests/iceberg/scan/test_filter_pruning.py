import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, Transform, VoidTransform
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

from iceberg.filtered_rows import FILTERS, SCHEMA, Filter, rows
from iceberg.scan.fake_manifests import data
from icefloe.iceberg.filters.row_filter import RowFilter
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.manifests.manifest_reader import DataEntry, EntryStatus
from icefloe.iceberg.scan.scan_tasks import file_condition
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.tables.written_tables import create_table, reader

SPECS: tuple[tuple[tuple[str, Transform[Any, Any]], ...], ...] = (
    (),
    (("s", IdentityTransform()), ("b", IdentityTransform())),
    (("day", IdentityTransform()), ("at", IdentityTransform()), ("tz", IdentityTransform())),
    (("dec", IdentityTransform()),),
    (("l", BucketTransform(4)), ("at", DayTransform()), ("i", VoidTransform())),
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
    return [(entry, [batch for _, batch in reader(table.io).rows(entry.file, schema)]) for entry in entries(table)]


def entries(table: Table) -> Iterable[DataEntry]:
    reader = LoadedTable(table).manifests
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [entry for manifest in reader.manifests(snapshot) for entry in reader.data_entries(manifest)]


def check_left_out(text: str, table: Table, files: Files) -> None:
    """Fails if a file that is left out has a row that passes."""
    row_filter = RowFilter.parse(text, table.schema(), table="db.t")
    may_match = file_condition(row_filter)
    left_out = [batches for entry, batches in files if not may_match(entry)]
    assert not any(row_filter.mask(batch).any() for batches in left_out for batch in batches), text


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(found=FILTERS, is_renamed=st.booleans())
def test_no_file_with_a_row_that_passes_is_left_out(
    table: Table, files: Files, found: Filter, is_renamed: bool
) -> None:
    text = re.sub(r"\bs\b", "text", found.text) if is_renamed else found.text
    check_left_out(text, table, files)


def may_match(text: str, kind: Any, *bounds: bytes, nulls: int | None = None, **facts: Any) -> bool:
    """Of a file of two rows that only its manifest entry tells of."""
    schema = Schema(NestedField(1, "c", kind, required=False, initial_default=facts.pop("default", None)))
    lower, upper = ({1: bound} for bound in bounds) if bounds else ({}, {})
    entry = replace(
        data("f", EntryStatus.ADDED, 1, record_count=2, **facts), lower_bounds=lower, upper_bounds=upper,
        null_value_counts={} if nulls is None else {1: nulls},
    )  # fmt: skip
    return file_condition(RowFilter.parse(text, schema, table="db.t"))(entry)


INTS = [number.to_bytes(4, "little") for number in (7, 9)]
HALF, NAN, TENTH, ONE = ([bits] * 2 for bits in (b"\0\0\0\x3f", b"\0\0\xc0\x7f", b"\xcd\xcc\xcc\x3d", b"\0\0\x80\x3f"))
CUT = ["ü".encode()[:1], b"\xc4"]
KEY = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
DEFAULTS = ["c = 5", "c is null", "c is not null"]
OF_VALUES = ["c is not null", "c = 1", "c != 1", "c not in (1, 2)"]


@pytest.mark.parametrize(
    ("kind", "bounds", "may", "may_not"),
    [
        pytest.param(LongType(), INTS, ["c >= 9"], ["c > 9"], id="ints under long"),
        pytest.param(DoubleType(), HALF, ["c = 0.5"], ["c < 0.5"], id="floats under double"),
        pytest.param(DecimalType(20, 2), [b"\x01", b"\x03\x84"], ["c = 9.00"], ["c > 9.00"], id="narrow decimals"),
        pytest.param(TimestampType(), INTS, ["c = '2024-02-29T00:00:00'"], [], id="dates under timestamp"),
        pytest.param(FloatType(), NAN, ["c = 1.5"], [], id="bounds of nan"),
        pytest.param(FloatType(), TENTH, ["c = 0.1", "c in (0.1, 7.0)"], ["c > 0.1"], id="the nearest float"),
        pytest.param(FloatType(), ONE, ["c is nan", "not (c <= 1.0)", "c != 1.0"], [], id="bounds leave nan out"),
        pytest.param(StringType(), CUT, ["c = 'ü'"], ["c = 'z'"], id="text cut inside a character"),
        pytest.param(StringType(), [b"ab"] * 2, ["c like 'a%'"], ["c like 'b%'"], id="a beginning"),
        pytest.param(StringType(), [b"ab", b"ac"], ["c not like 'ab%'"], ["c not like 'a%'"], id="no beginning"),
        pytest.param(UUIDType(), [UUID(KEY).bytes] * 2, [f"c = '{UUID(int=0)}'"], [], id="bounds of uuids"),
    ],
)
def test_bounds_rule_out_files_as_far_as_they_compare(
    kind: PrimitiveType, bounds: list[bytes], may: list[str], may_not: list[str]
) -> None:
    for text in may:
        assert may_match(text, kind, *bounds), text
    for text in may_not:
        assert not may_match(text, kind, *bounds), text


def test_null_counts_prune_unless_the_file_lacks_the_column() -> None:
    assert [may_match("c is null", IntegerType(), nulls=count) for count in (0, 1)] == [False, True]
    for text in OF_VALUES:
        assert [may_match(text, IntegerType(), nulls=count) for count in (2, 1, None)] == [False, True, True], text
    assert all(may_match(text, IntegerType(), default=5) for text in DEFAULTS)


@pytest.mark.parametrize(
    ("kind", "constant", "may", "may_not"),
    [
        (IntegerType(), 5, ["c = 5"], ["c != 5", "c > 5", "c not in (5, 6)", "c is null"]),
        (IntegerType(), None, ["c is null"], ["c = 5"]),
        (DoubleType(), "NaN", ["c != 5.5"], []),
        (FloatType(), "Infinity", ["c > 1" + "0" * 39], []),
        (UUIDType(), KEY, [f"c = '{KEY}'"], [f"c = '{UUID(int=0)}'"]),
        (DateType(), "2024-02-29", ["c = '2024-02-29'"], ["c = '2024-03-01'"]),
        (DateType(), 19782, ["c = '2024-02-29'"], ["c = '2024-03-01'"]),
        (TimestampType(), "2024-02-29", ["c = '2024-03-01T00:00:00'"], []),
    ],
    ids=str,
)
def test_the_constant_of_an_identity_partition_decides(
    kind: PrimitiveType, constant: Any, may: list[str], may_not: list[str]
) -> None:
    assert all(may_match(text, kind, constants={"1": constant}) for text in may)
    assert not any(may_match(text, kind, constants={"1": constant}) for text in may_not)
