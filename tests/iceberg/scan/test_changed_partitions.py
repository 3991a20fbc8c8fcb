"""Changed partitions, against Iceberg's own paths, the files of the table's states, and the rows that changed."""

import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo, IsNull
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from icefloe import read_changed_partitions, read_changes
from icefloe.errors import UsageError
from icefloe.iceberg.manifests.manifest_values import partition_types, partition_value
from icefloe.iceberg.scan.changed_partitions import partitions_table
from support.catalogs import open_sql_catalog
from support.tables.compactions import compact

INSTANT = 1_796_016_600_000_005
"""2026-11-30T05:30:00.000005."""


@pytest.mark.parametrize(
    ("transform", "kind", "value"),
    [
        (IdentityTransform(), StringType(), "a/b=c d%é"),
        (IdentityTransform(), StringType(), ""),
        (IdentityTransform(), StringType(), "null"),
        (IdentityTransform(), LongType(), -7),
        (IdentityTransform(), BooleanType(), True),
        (IdentityTransform(), BinaryType(), b"\0\xff"),
        (IdentityTransform(), DecimalType(9, 2), Decimal("-1.20")),
        (IdentityTransform(), DoubleType(), 0.1),
        (IdentityTransform(), DoubleType(), float("nan")),
        (IdentityTransform(), DateType(), -3653),
        (IdentityTransform(), TimeType(), 3_723_000_004),
        (IdentityTransform(), TimestampType(), INSTANT),
        (IdentityTransform(), TimestampType(), INSTANT - 5),
        (IdentityTransform(), TimestamptzType(), INSTANT),
        (IdentityTransform(), UUIDType(), UUID(int=7)),
        (YearTransform(), TimestampType(), -1),
        (MonthTransform(), TimestamptzType(), 682),
        (MonthTransform(), DateType(), -1),
        (DayTransform(), TimestamptzType(), 20_787),
        (HourTransform(), TimestamptzType(), 498_893),
        (HourTransform(), TimestamptzType(), -1),
        (BucketTransform(16), LongType(), 7),
        (TruncateTransform(2), StringType(), "ab"),
        (TruncateTransform(2), BinaryType(), b"\xff"),
        (IdentityTransform(), LongType(), None),
        (MonthTransform(), DateType(), None),
    ],
)
def test_paths_are_those_of_iceberg(transform: Any, kind: Any, value: Any) -> None:
    schema = Schema(NestedField(1, "x", kind))
    spec = PartitionSpec(PartitionField(1, 1000, transform, "of/x=y z"), spec_id=3)
    types = partition_types({3: spec}, [schema])
    table = partitions_table([(3, (partition_value(types[3][0], "number", value),))], {3: spec}, types)
    expected = spec.partition_to_path(Record(value), schema)
    assert table["path"].to_pylist() == [expected.replace("nan", "NaN")]


def test_a_field_that_was_dropped_in_version_1_is_null_and_alone_it_makes_no_partition() -> None:
    schema = Schema(NestedField(1, "x", LongType()))
    void = PartitionField(1, 1000, VoidTransform(), "x")
    for fields, path in (((void,), ""), ((void, PartitionField(1, 1001, BucketTransform(4), "b")), "x=null/b=3")):
        spec = PartitionSpec(*fields)
        found = partitions_table([(0, (None, 3)[: len(fields)])], {0: spec}, partition_types({0: spec}, [schema]))
        assert found["path"].to_pylist() == [path]


def test_far_years_have_paths_although_python_has_no_such_dates() -> None:
    schema = Schema(NestedField(1, "x", DateType()))
    spec = PartitionSpec(PartitionField(1, 1000, MonthTransform(), "m"), PartitionField(1, 1001, DayTransform(), "d"))
    types = partition_types({0: spec}, [schema])
    days = int(np.datetime64("12026-11-30").astype(int))
    values = (120_682, partition_value(types[0][1], "date", days))
    assert partitions_table([(0, values)], {0: spec}, types)["path"].to_pylist() == ["m=12026-11/d=12026-11-30"]


SCHEMA = pa.schema([("id", pa.int64()), ("origin", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])


def rows(*given: tuple[int, str | None, int]) -> pa.Table:
    """Rows with an id, an origin and a month of 2026."""
    found = [{"id": each[0], "origin": each[1], "at": datetime(2026, each[2], 9, tzinfo=UTC)} for each in given]
    return pa.Table.from_pylist(found, schema=SCHEMA)


BY_ORIGIN = PartitionField(2, 1000, IdentityTransform(), "origin")
BY_MONTH = PartitionField(3, 1001, MonthTransform(), "at_month")


def create(folder: Path, *fields: PartitionField, **properties: str) -> Table:
    catalog = open_sql_catalog("lab", folder)
    catalog.create_namespace("db")
    kinds = (("id", LongType()), ("origin", StringType()), ("at", TimestamptzType()))
    schema = Schema(*(NestedField(number, name, kind) for number, (name, kind) in enumerate(kinds, 1)))
    return catalog.create_table("db.t", schema, partition_spec=PartitionSpec(*fields), properties=properties)


def paths(table: Table, *range_: int | None, **options: Any) -> list[str]:
    return read_changed_partitions(table.refresh(), *range_, **options)["path"].to_pylist()


def head(table: Table) -> int:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def test_a_partition_is_changed_if_a_file_of_it_was_added_or_removed(tmp_path: Path) -> None:
    table = create(tmp_path, BY_ORIGIN, BY_MONTH)
    table.append(rows((1, "JFK", 11), (2, "LGA", 11), (3, None, 1)))
    first = head(table)
    months = {"JFK": "2026-11", "LGA": "2026-11", "null": "2026-01"}
    assert paths(table) == [f"origin={origin}/at_month={month}" for origin, month in months.items()]
    table.delete(EqualTo(term="id", value=1))
    second = head(table)
    table.delete(IsNull(term="origin"))
    assert paths(table, first) == ["origin=JFK/at_month=2026-11", "origin=null/at_month=2026-01"]
    assert paths(table, first, second) == ["origin=JFK/at_month=2026-11"]
    assert paths(table, head(table)) == []
    found = read_changed_partitions(table, first)
    assert found.to_pydict() == {
        "spec_id": [0, 0],
        "partition": [{"origin": "JFK", "at_month": 682}, {"origin": None, "at_month": 672}],
        "path": ["origin=JFK/at_month=2026-11", "origin=null/at_month=2026-01"],
    }
    # As a user of pandas has it.
    assert found.to_pandas()["partition"].map(lambda partition: partition["origin"]).tolist() == ["JFK", None]


def test_times_and_branches_bound_the_range(tmp_path: Path) -> None:
    table = create(tmp_path, BY_ORIGIN)
    table.append(rows((1, "JFK", 11)))
    first = table.current_snapshot()
    assert first is not None
    table.manage_snapshots().create_branch(first.snapshot_id, "audit").commit()
    table.append(rows((2, "LGA", 11)))
    table.append(rows((3, "EWR", 11)), branch="audit")
    assert paths(table, first.snapshot_id, branch="audit") == ["origin=EWR"]
    at = datetime.fromtimestamp(first.timestamp_ms / 1000, UTC)
    assert paths(table, after_timestamp=at) == ["origin=LGA"]
    assert paths(table, up_to_timestamp=at) == ["origin=JFK"]


def test_a_compaction_changes_no_partition(tmp_path: Path) -> None:
    table = create(tmp_path, BY_ORIGIN)
    table.append(rows((1, "JFK", 11), (2, "LGA", 11)))
    first = head(table)
    compact(table)
    assert paths(table, first) == []
    table.append(rows((3, "LGA", 11)))
    assert paths(table, first) == ["origin=LGA"]


def test_a_rollback_changes_the_partitions_in_which_both_states_differ(tmp_path: Path) -> None:
    table = create(tmp_path, BY_ORIGIN)
    table.append(rows((1, "JFK", 11)))
    first = head(table)
    table.append(rows((2, "LGA", 11)))
    second = head(table)
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    table.append(rows((3, "EWR", 11)))
    assert paths(table, second) == ["origin=EWR", "origin=LGA"]


def test_values_that_look_alike_are_partitions_of_their_own(tmp_path: Path) -> None:
    table = create(tmp_path, BY_ORIGIN)
    table.append(rows((1, "null", 1), (2, None, 1), (3, "jfk", 1), (4, "JFK", 1), (5, "a/origin=b", 1), (6, "a+b", 1)))
    found = read_changed_partitions(table)
    written = {path.split("/data/")[1].rpartition("/")[0] for path in table.inspect.files()["file_path"].to_pylist()}
    assert set(found["path"].to_pylist()) == written
    origins = [partition["origin"] for partition in found["partition"].to_pylist()]
    assert sorted(origins, key=str) == ["JFK", None, "a+b", "a/origin=b", "jfk", "null"]


def test_files_of_several_specs_are_named_by_their_own(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.append(rows((1, "JFK", 11)))
    first = head(table)
    with table.update_spec() as update:
        update.add_field("at", MonthTransform(), "part")
    table.append(rows((2, "JFK", 11)))
    with table.update_spec() as update:
        update.remove_field("part").add_field("origin", IdentityTransform(), "origin")
    table.append(rows((3, "JFK", 11)))
    with table.update_spec() as update:
        update.remove_field("origin").add_field("id", IdentityTransform(), "part")
    table.append(rows((4, "JFK", 11)))
    found = read_changed_partitions(table.refresh()).to_pydict()
    assert found["spec_id"] == [0, 1, 2, 3]
    assert found["path"] == ["", "part=2026-11", "origin=JFK", "part=4"]
    part, later = "part_1000", "part_1002"
    nothing = {part: None, "origin": None, later: None}
    assert found["partition"] == [nothing, nothing | {part: 682}, nothing | {"origin": "JFK"}, nothing | {later: 4}]
    fourth = head(table)
    table.delete(EqualTo(term="id", value=1))
    assert paths(table, fourth) == [""]
    assert paths(table, first, fourth) == ["part=2026-11", "origin=JFK", "part=4"]


def test_an_unpartitioned_table_has_one_partition_without_a_name(tmp_path: Path) -> None:
    table = create(tmp_path)
    assert read_changed_partitions(table).num_rows == 0
    table.append(rows((1, "JFK", 11)))
    found = read_changed_partitions(table.refresh())
    assert found.to_pydict() == {"spec_id": [0], "partition": [{}], "path": [""]}
    assert found.to_pandas().shape == (1, 3)


def test_in_random_histories_they_are_the_partitions_whose_files_differ_and_hold_every_change(tmp_path: Path) -> None:
    table, choose = create(tmp_path, BY_ORIGIN, BY_MONTH), random.Random(7)
    for number in range(12):
        if number % 3 < 2:
            added = [(100 * number + each, choose.choice("abcd"), choose.randint(1, 3)) for each in range(4)]
            table.append(rows(*added))
        else:
            ids = table.scan().to_arrow()["id"].to_pylist()
            table.delete(EqualTo(term="id", value=choose.choice(ids)))
    ids = [None, *(snapshot.snapshot_id for snapshot in table.refresh().snapshots())]
    files = {None: set[tuple[str, str]]()}
    for each in ids[1:]:
        names = table.inspect.files(each)["file_path"].to_pylist()
        files[each] = {(name, name.split("/data/")[1].rpartition("/")[0]) for name in names}
    for start, after in enumerate(ids):
        for stop in range(start + 1, len(ids)):
            steps = zip(ids[start:stop], ids[start + 1 : stop + 1], strict=True)
            expected = {path for one, other in steps for _, path in files[one] ^ files[other]}
            assert set(paths(table, after, ids[stop])) == expected
        changes = read_changes(table, after).read_all().select(["origin", "at"]).to_pylist()
        assert {f"origin={row['origin']}/at_month={row['at']:%Y-%m}" for row in changes} <= set(paths(table, after))


def test_something_that_is_no_table_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"^read_changed_partitions takes a pyiceberg.table.Table"):
        read_changed_partitions("db.t")
