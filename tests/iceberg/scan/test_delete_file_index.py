import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from types import SimpleNamespace
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
    TimestampType,
)

from iceberg.scan.fake_manifests import data, delete
from icefloe.iceberg.data_file import FileContent, constant_to_json
from icefloe.iceberg.deletes.equality_deletes import EqualityDeletes
from icefloe.iceberg.manifests.manifest_reader import DELETED_FILE_PATH, DataEntry, DeleteEntry, EntryStatus, Partition
from icefloe.iceberg.manifests.manifest_values import ColumnRange, KeyTypes, key_types
from icefloe.iceberg.scan.delete_file_index import DeleteFileIndex, DeleteNumbers, key_ranges, may_meet, may_share_key
from icefloe.iceberg.schemas.table_schema import TableSchema
from support.tables.written_deletes import write_equality_deletes
from support.tables.written_tables import optional, with_id, write_file
from support.tables.written_tables import reader as table_reader

HERE: Partition = (1, ("2020-01-01",))
ELSEWHERE: Partition = (1, ("2020-01-02",))

EQUALITY = {"sequence_number": 6, "equality_field_ids": (7,)}


def long_key(lower: int, upper: int) -> dict[str, Any]:
    """The metrics of column 7 without nulls."""
    bounds = {name: {7: value.to_bytes(8, "little")} for name, value in (("lower", lower), ("upper", upper))}
    return {"lower_bounds": bounds["lower"], "upper_bounds": bounds["upper"], "null_value_counts": {7: 0}}


def data_entry(path: str = "s3://b/m.parquet", sequence_number: int = 5) -> DataEntry:
    return replace(data(path, EntryStatus.ADDED, 1, sequence_number), partition=HERE)


def delete_entry(*, path: str = "s3://b/d.parquet", sequence_number: int = 5, **facts: Any) -> DeleteEntry:
    known = {"partition": HERE, "is_unpartitioned": False} | facts
    return delete(path, EntryStatus.ADDED, 1, sequence_number, **known)


def in_force(index: DeleteFileIndex, data: DataEntry, state: Iterable[int]) -> list[int]:
    """The numbers of the delete files in force on a data file at a state."""
    [found] = index.in_force_at(DeleteNumbers(state))(index.reach(data))
    return list(found)


def reaching(data: DataEntry, *entries: DeleteEntry, key_types: KeyTypes | None = None) -> list[str]:
    """The paths of the delete files that are in force on a data file where all of them are live."""
    index = DeleteFileIndex(entries, key_types or {})
    return [index[number].path for number in in_force(index, data, range(len(entries)))]


@pytest.mark.parametrize(
    ("changes", "applies"),
    [
        ({"sequence_number": 5}, False),
        ({"sequence_number": 6}, True),
        ({"sequence_number": 6, "partition": ELSEWHERE}, False),
        ({"sequence_number": 6, "referenced_data_file": "s3://b/n.parquet"}, True),
        ({"sequence_number": 6, "partition": (0, ()), "is_unpartitioned": True}, True),
        ({"sequence_number": 5, "partition": (0, ()), "is_unpartitioned": True}, False),
    ],
)
def test_equality_deletes_reach_older_files_of_their_partition_or_of_all(
    changes: dict[str, Any], applies: bool
) -> None:
    entry = delete_entry(content=FileContent.EQUALITY_DELETES, **changes)
    assert bool(reaching(data_entry(), entry)) is applies


NAMES = st.text("aé/", min_size=1, max_size=4) | st.sampled_from(["a.parquet", "b.orc", "é.avro"])
SOME_PARTITION = st.sampled_from([HERE, ELSEWHERE, (2, HERE[1]), (0, ())])
SOME_NUMBER = st.integers(4, 6)
POSITION_DELETES = st.builds(
    delete_entry,
    partition=SOME_PARTITION, sequence_number=SOME_NUMBER, referenced_data_file=st.none() | NAMES,
    paths=st.tuples(st.just("") | NAMES, st.just("") | NAMES),
) | st.builds(
    lambda name, **facts: delete_entry(paths=(name, name), **facts),
    name=NAMES, partition=SOME_PARTITION, sequence_number=SOME_NUMBER,
)  # fmt: skip


def applies_by_the_spec(deletes: DeleteEntry, data: DataEntry) -> bool:
    """A name is the path, whatever the partition is; without one, partition and bounds decide, which may be cut."""
    path, reference = data.file.path, deletes.file.referenced_data_file
    lower, upper = deletes.lower_bounds.get(DELETED_FILE_PATH), deletes.upper_bounds.get(DELETED_FILE_PATH)
    if data.file.sequence_number > deletes.file.sequence_number:
        return False
    if reference is not None or lower == upper == path.encode():
        return reference in {None, path}
    is_within = (lower or b"") <= path.encode() and (upper is None or path.encode()[: len(upper)] <= upper)
    return deletes.partition == data.partition and is_within


@given(
    entries=st.lists(POSITION_DELETES, max_size=8),
    paths=st.lists(st.tuples(NAMES, SOME_NUMBER, SOME_PARTITION), max_size=8),
)
@example(entries=[delete_entry(paths=("b", "d"))], paths=[(name, 5, HERE) for name in "abcde"])
def test_position_deletes_reach_what_the_spec_lets_them_reach_whichever_others_there_are(
    entries: list[DeleteEntry], paths: list[tuple[str, int, Partition]]
) -> None:
    index = DeleteFileIndex(entries, {})
    for path, number, partition in paths:
        data = replace(data_entry(path, number), partition=partition)
        assert list(index.reach(data)) == [n for n, each in enumerate(entries) if applies_by_the_spec(each, data)]


def test_a_deletion_vector_replaces_position_delete_files_and_no_equality_deletes() -> None:
    vector = {"file_format": "PUFFIN", "referenced_data_file": "s3://b/m.parquet", "content_offset": 4}
    entries = [
        delete_entry(path="positions"),
        delete_entry(path="vector", **vector),
        delete_entry(path="equality", content=FileContent.EQUALITY_DELETES, sequence_number=6),
    ]
    assert reaching(data_entry(), *entries) == ["vector", "equality"]
    assert reaching(data_entry("s3://b/n.parquet"), *entries) == ["positions", "equality"]


def test_equality_deletes_whose_keys_a_data_file_cannot_hold_do_not_reach_it() -> None:
    data = replace(data_entry(), **long_key(10, 19))
    entries = [
        replace(
            delete_entry(path=f"{lower}", content=FileContent.EQUALITY_DELETES, **EQUALITY), **long_key(lower, upper)
        )
        for lower, upper in ((0, 9), (5, 10), (12, 15), (19, 30), (20, 30))
    ]
    assert reaching(data, *entries, key_types={7: LongType()}) == ["5", "12", "19"]
    assert len(reaching(data, *entries)) == 5


def test_states_that_are_asked_for_at_once_each_have_their_own_delete_files_in_force() -> None:
    index = DeleteFileIndex(
        [delete_entry(path=f"s3://b/d{number}", sequence_number=number) for number in range(2, 8)], {}
    )
    states = [range(2, 3), range(2), range(6)]
    at_states = index.in_force_at(*map(DeleteNumbers, states))
    for name, number in (("a", 1), ("b", 1), ("c", 4), ("a", 1), ("d", 9)):
        data = data_entry(f"s3://b/{name}.parquet", number)
        assert [list(found) for found in at_states(index.reach(data))] == [
            in_force(index, data, state) for state in states
        ]


ZEROS = (0.0, -0.0, math.nan, 1.5)


@pytest.mark.parametrize("content", [FileContent.EQUALITY_DELETES, FileContent.POSITION_DELETES])
def test_deletes_of_a_partition_of_minus_zero_leave_that_of_zero_alone(content: FileContent) -> None:
    partitions: list[Partition] = [(1, (constant_to_json(DoubleType(), value),)) for value in ZEROS]
    entries = [delete_entry(content=content, sequence_number=6, partition=partition) for partition in partitions]
    index = DeleteFileIndex(entries, {})
    for number, partition in enumerate(partitions):
        assert in_force(index, replace(data_entry(), partition=partition), range(len(ZEROS))) == [number]


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
    entry: Any = SimpleNamespace(
        file=file, lower_bounds=file.lower_bounds, upper_bounds=file.upper_bounds,
        null_value_counts=file.null_value_counts or {},
    )  # fmt: skip
    return key_ranges(entry, field_ids, TYPES)


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
    reader = EqualityDeletes({0: deletes}, schemas=compared, reader=table_reader(), memory_bytes=1 << 20)
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


def test_a_column_prunes_nothing_if_a_replaced_table_had_it_in_another_type() -> None:
    def kinds(*types: PrimitiveType) -> Mapping[int, PrimitiveType]:
        return key_types([Schema(optional("a", kind, 1), schema_id=number) for number, kind in enumerate(types)])

    assert kinds(StringType(), LongType()) == kinds(LongType(), StringType(), LongType()) == {}
    assert kinds(DecimalType(9, 2), DecimalType(9, 3)) == kinds(IntegerType(), DateType()) == {}
    assert kinds(LongType(), IntegerType()) == {1: LongType()}
    assert kinds(DecimalType(9, 2), DecimalType(5, 2)) == {1: DecimalType(9, 2)}


def test_bounds_of_a_type_that_does_not_compare_prune_nothing() -> None:
    bounds = {1: (7).to_bytes(4, "little")}
    dates: Any = SimpleNamespace(
        file=SimpleNamespace(record_count=1), lower_bounds=bounds, upper_bounds=bounds, null_value_counts={}
    )
    assert key_ranges(dates, (1,), {1: TimestampType()}) == (ColumnRange(),)
