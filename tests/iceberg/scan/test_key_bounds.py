from collections.abc import Mapping, Sequence
from math import inf, nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile as WrittenFile
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
)

from icefloe.iceberg.deletes.equality_deletes import EqualityDeletes
from icefloe.iceberg.filters.column_range import ColumnRange
from icefloe.iceberg.manifests.manifest_values import key_types
from icefloe.iceberg.scan.delete_file_index import key_ranges, may_meet, may_share_key
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.tables.written_deletes import write_equality_deletes
from support.tables.written_tables import local_io, optional, with_id, write_file

TABLE = Schema(optional("a", LongType(), 1), optional("b", StringType(), 2), optional("c", DoubleType(), 3))
EARLIER = Schema(optional("a", IntegerType(), 1), *TABLE.fields[1:])
TYPES = key_types([TABLE])
Row = tuple[int | None, str | None, float | None]

KEYS: st.SearchStrategy[Row] = st.tuples(
    st.none() | st.integers(-3, 6),
    st.none() | st.sampled_from(["", "a", "aab", "aac", "aad", "b", "é", "\uffff", "\U0010ffff", "\U0010ffff" * 4]),
    st.none() | st.sampled_from([0.0, -0.0, 1.5, -2.0, nan, inf, -inf]),
)


def written(path: Path, schema: Schema, rows: Sequence[Row]) -> pa.Table:
    kinds = [pa.int32() if schema is EARLIER else pa.int64(), pa.string(), pa.float64()]
    fields = [
        with_id(place + 1, pa.field(name, kind)) for place, (name, kind) in enumerate(zip("abc", kinds, strict=True))
    ]
    columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)]
    return pa.table(columns, schema=pa.schema(fields))


def metrics(path: str, schema: Schema, mode: str) -> Any:
    """The metrics that PyIceberg writes into the manifest for a file."""
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=pq.read_metadata(path),
        stats_columns=compute_statistics_plan(schema, {"write.metadata.metrics.default": mode}),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
    return WrittenFile.from_args(**statistics.to_serialized_dict())


def ranges(path: str, schema: Schema, mode: str, field_ids: Sequence[int]) -> tuple[ColumnRange, ...]:
    file = metrics(path, schema, mode)
    counts: Mapping[int, int] = file.null_value_counts or {}
    return key_ranges(file, field_ids=field_ids, record_count=file.record_count, null_value_counts=counts, types=TYPES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("key_bounds")


@settings(deadline=None, max_examples=150)
@given(
    rows=st.lists(KEYS, min_size=1, max_size=4),
    keys=st.lists(KEYS, min_size=1, max_size=3),
    schema=st.sampled_from([TABLE, EARLIER]),
    modes=st.tuples(*[st.sampled_from(["full", "truncate(1)", "truncate(2)", "counts", "none"])] * 2),
    field_ids=st.sampled_from([(1,), (2,), (3,), (1, 2), (1, 2, 3)]),
)
@example(
    rows=[(0, "", nan), (0, "", 1.5)], keys=[(0, "", nan), (0, "", -2.0)], schema=TABLE, modes=("full",) * 2,
    field_ids=(3,),
)  # fmt: skip
def test_delete_files_that_delete_a_row_are_never_left_out(
    folder: Path, rows: list[Row], keys: list[Row], schema: Schema, modes: tuple[str, str], field_ids: tuple[int, ...]
) -> None:
    data = write_file(folder / "data.parquet", written(folder, schema, rows))
    deletes = write_equality_deletes(folder / "deletes.parquet", written(folder, TABLE, keys), field_ids)
    may = may_share_key(
        ranges(data.path, schema, modes[0], field_ids), ranges(deletes.path, TABLE, modes[1], field_ids)
    )
    compared = {field_ids: TableSchema.of(Schema(*(field for field in TABLE.fields if field.field_id in field_ids)))}
    reader = EqualityDeletes({0: deletes}, schemas=compared, io=local_io(), table="db.t", memory_bytes=1 << 20)
    deleted = reader.of(data, [0])
    event(f"left out: {not may}")
    assert may or not deleted


HOLDS_NULLS_ONLY = ColumnRange(may_hold_values=False)
UNKNOWN = ColumnRange()


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        (ColumnRange(lower=1, upper=3), ColumnRange(lower=4, upper=9), True),
        (ColumnRange(lower=1, upper=3, may_hold_nulls=False), ColumnRange(lower=4, upper=9), False),
        (ColumnRange(lower=1, upper=3, may_hold_nulls=False), ColumnRange(lower=3, upper=9), True),
        (ColumnRange(lower=b"a", may_hold_nulls=False), ColumnRange(upper=b"Z"), False),
        (ColumnRange(lower=b"a", may_hold_nulls=False), ColumnRange(lower=b"Z"), True),
        (HOLDS_NULLS_ONLY, ColumnRange(may_hold_nulls=False), False),
        (HOLDS_NULLS_ONLY, UNKNOWN, True),
        (HOLDS_NULLS_ONLY, HOLDS_NULLS_ONLY, True),
        (UNKNOWN, UNKNOWN, True),
    ],
)
def test_two_columns_meet_in_a_value_or_in_null(one: ColumnRange, other: ColumnRange, may: bool) -> None:
    assert may_meet(one, other) is may
    assert may_meet(other, one) is may


def test_every_column_of_a_key_has_to_meet() -> None:
    low, high = ColumnRange(lower=1, upper=2, may_hold_nulls=False), ColumnRange(lower=3, upper=4)
    assert may_share_key([low, low], [low, low])
    assert not may_share_key([low, low], [low, high])


def test_types_are_the_widest_ones_of_columns_outside_of_structs() -> None:
    inner = optional("s", StructType(optional("x", LongType(), 5)), 4)
    schemas = [
        Schema(optional("a", LongType(), 1), inner, schema_id=2),
        Schema(optional("a", IntegerType(), 1), optional("gone", StringType(), 2), schema_id=1),
    ]
    assert key_types(schemas) == {1: LongType(), 2: StringType()}


def test_a_column_prunes_nothing_if_a_replaced_table_had_it_in_another_type() -> None:
    def kinds(*types: PrimitiveType) -> Mapping[int, PrimitiveType]:
        return key_types([Schema(optional("a", kind, 1), schema_id=number) for number, kind in enumerate(types)])

    assert kinds(StringType(), LongType()) == kinds(LongType(), StringType(), LongType()) == {}
    assert kinds(DecimalType(9, 2), DecimalType(9, 3)) == kinds(IntegerType(), DateType()) == {}
    assert kinds(LongType(), IntegerType()) == {1: LongType()}
    assert kinds(DecimalType(9, 2), DecimalType(5, 2)) == {1: DecimalType(9, 2)}


def test_bounds_of_a_type_that_does_not_compare_prune_nothing() -> None:
    class Dates:
        lower_bounds = upper_bounds = {1: (7).to_bytes(4, "little")}  # noqa: RUF012

    [known] = key_ranges(Dates(), field_ids=(1,), record_count=1, null_value_counts={}, types={1: TimestampType()})
    assert known == ColumnRange()
