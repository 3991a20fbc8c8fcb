from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from struct import pack
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import DateType, DoubleType, IntegerType, LongType, StringType, TimestampType

from iceberg.scan.fake_manifests import delete
from icefloe.iceberg.data_file import Constant, FileContent
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.manifests.manifest_avro import FieldSummary
from icefloe.iceberg.manifests.manifest_reader import DataEntry, DeleteEntry, EntryStatus, ManifestFile, ManifestReader
from icefloe.iceberg.manifests.manifest_values import partition_types
from icefloe.iceberg.scan.compared_states import ManifestPruning
from support.tables.planning_tables import make_catalog
from support.tables.written_tables import optional

EQUALITY = {"content": FileContent.EQUALITY_DELETES}
SCHEMA = Schema(
    optional("l", LongType(), 1), optional("s", StringType(), 2), optional("d", DateType(), 3),
    optional("x", DoubleType(), 4), optional("at", TimestampType(), 5),
)  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "l": [-1, 0, 7, None],
    "s": ["", "a", "é", "\U0010ffff", None],
    "d": [date(1969, 12, 31), date(2026, 11, 21), None],
    "x": [0.1, -0.0, 0.0, 7.5, None],
    "at": [datetime(1969, 12, 31, 23), datetime(2026, 11, 21, 1), None],
}
TRANSFORMS: list[tuple[str, Any]] = [
    *((name, IdentityTransform()) for name in VALUES),
    ("s", BucketTransform(3)),
    ("s", TruncateTransform(1)),
    ("l", TruncateTransform(5)),
    ("at", DayTransform()),
]


def deletes(spec_id: int, values: tuple[Constant, ...] = (), **facts: Any) -> DeleteEntry:
    known = {"partition": (spec_id, values), "is_unpartitioned": False} | facts
    return delete("d", EntryStatus.ADDED, 1, 9, **known)


def manifest(spec_id: int, *summaries: FieldSummary, knows: bool = True) -> ManifestFile:
    partitions = summaries if knows else None
    return ManifestFile(
        path=f"{summaries}", spec_id=spec_id, holds_deletes=False, added_snapshot_id=1, partitions=partitions
    )


def between(lower: int, upper: int, *, contains_null: bool = False) -> FieldSummary:
    bounds = (number.to_bytes(4, "little") for number in (lower, upper))
    return FieldSummary(contains_null=contains_null, **dict(zip(("lower_bound", "upper_bound"), bounds, strict=True)))


def written_manifests(
    folder: Path, column: str, transform: Any
) -> Iterator[tuple[ManifestFile, list[DataEntry], ManifestReader]]:
    """A manifest of PyIceberg for each value, and one for all of them."""
    spec = PartitionSpec(PartitionField(SCHEMA.find_field(column).field_id, 1000, transform, "part"), spec_id=0)
    table = make_catalog(folder).create_table("db.t", SCHEMA, partition_spec=spec)
    rows = SCHEMA.as_arrow().empty_table()
    for values in [*([value] for value in VALUES[column]), VALUES[column]]:
        columns = [values if name == column else [None] * len(values) for name in rows.column_names]
        table.append(
            pa.table([pa.array(each, kind.type) for each, kind in zip(columns, rows.schema, strict=True)], rows.schema)
        )
    reader = LoadedTable(table).manifests
    for found in reader.manifests(table.metadata.snapshots[-1]):
        yield found, reader.data_entries(found), reader


@pytest.mark.parametrize(("column", "transform"), TRANSFORMS, ids=str)
def test_a_manifest_is_read_where_it_lists_files_of_the_partition_and_few_others_are(
    tmp_path: Path, column: str, transform: Any
) -> None:
    manifests = list(written_manifests(tmp_path, column, transform))
    unneeded = skipped = 0
    for values in {entry.partition[1] for _, entries, _ in manifests for entry in entries}:
        for found, entries, reader in manifests:
            is_needed = any(entry.partition[1] == values for entry in entries)
            is_included = ManifestPruning([deletes(0, values)], reader.partition_types).includes(found)
            assert is_included or not is_needed
            unneeded, skipped = unneeded + (not is_needed), skipped + (not is_included)
    assert skipped > unneeded / 2


INTEGERS = {3: [IntegerType(), IntegerType()]}


@pytest.mark.parametrize(
    ("reached", "found", "includes"),
    [
        ((5, 5), manifest(3, between(1, 5), between(5, 9)), True),
        ((5, 4), manifest(3, between(1, 5), between(5, 9)), False),
        ((5, None), manifest(3, between(1, 5), between(5, 9)), False),
        ((5, None), manifest(3, between(1, 5), between(5, 9, contains_null=True)), True),
        ((5, None), manifest(3, between(1, 5), FieldSummary(contains_null=True)), True),
        ((5, 4), manifest(3, knows=False), True),
        ((5, 4), manifest(3, between(8, 9)), True),
        ((5,), manifest(3, between(1, 5), between(8, 9)), True),
        ((5, 4), manifest(4, between(1, 9), between(1, 9)), False),
    ],
)
def test_summaries_leave_out_what_no_partition_lies_in(
    reached: tuple[Constant, ...], found: ManifestFile, includes: bool
) -> None:
    assert ManifestPruning([deletes(3, reached)], INTEGERS).includes(found) is includes
    assert ManifestPruning([deletes(3, reached, **EQUALITY)], INTEGERS).includes(found) is includes
    assert ManifestPruning([deletes(9), deletes(3, reached)], INTEGERS).includes(found) is includes


@pytest.mark.parametrize(("value", "includes"), [("NaN", True), (1.0, True), (3.0, False), ("Infinity", False)])
def test_bounds_of_partitions_leave_nan_out(value: Constant, includes: bool) -> None:
    lower, upper = (pack("<d", number) for number in (1.0, 2.0))
    found = manifest(3, FieldSummary(contains_null=False, lower_bound=lower, upper_bound=upper))
    assert ManifestPruning([deletes(3, (value,))], {3: [DoubleType()]}).includes(found) is includes


def test_global_equality_deletes_reach_every_manifest_and_no_others_do() -> None:
    elsewhere = manifest(3, between(1, 1), between(1, 1))
    assert ManifestPruning([deletes(0, is_unpartitioned=True, **EQUALITY)], INTEGERS).includes(elsewhere)
    assert not ManifestPruning([deletes(0, is_unpartitioned=True)], INTEGERS).includes(elsewhere)
    assert not ManifestPruning([], INTEGERS).includes(elsewhere)


def paths(*entries: DeleteEntry) -> Iterable[str] | None:
    found = ManifestPruning(entries, INTEGERS).paths(manifest(3))
    return found if found is None else {path for path in ("a", "b.orc", "c") if path in found}


def test_only_the_named_files_are_reached_where_every_delete_file_names_one() -> None:
    named = deletes(3, (1, 1), referenced_data_file="a")
    by_bounds = deletes(3, (1, 1), paths=("b.orc", "b.orc"))
    assert paths(named, by_bounds) == {"a", "b.orc"}
    assert paths(named, deletes(3, (1, 1), paths=("b", "b"))) is None
    assert paths(named, deletes(4)) == {"a"}
    assert paths(replace(named, partition=(4, (1,)))) == {"a"}
    assert paths(named, deletes(3, (1, 1), paths=("a", "b"))) is None
    assert paths(named, deletes(3, (1, 1), **EQUALITY)) is None
    assert paths(named, deletes(0, is_unpartitioned=True, **EQUALITY)) is None
    assert not paths(deletes(4))


def test_types_of_partitions_outlive_the_column_and_are_unknown_unless_all_schemas_agree() -> None:
    spec = PartitionSpec(
        PartitionField(1, 1000, IdentityTransform(), "a"), PartitionField(2, 1001, BucketTransform(2), "b"),
        PartitionField(7, 1002, IdentityTransform(), "c"), spec_id=3,
    )  # fmt: skip
    schemas = [Schema(optional("a", LongType(), 1), schema_id=1), Schema(optional("b", StringType(), 2), schema_id=0)]
    assert partition_types({3: spec}, schemas) == {3: [LongType(), LongType(), None]}
    replaced = Schema(optional("a", StringType(), 1), schema_id=2)
    assert partition_types({3: spec}, [*schemas, replaced]) == {3: [None, LongType(), None]}
