"""Entries of manifests as the plan of files compares them."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
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
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from icefloe.iceberg.data_file import constant_to_json
from icefloe.iceberg.manifests.manifest_avro import RawEntry, read_manifest_entries
from icefloe.iceberg.manifests.manifest_reader import EntryStatus, ManifestFile, data_entries, delete_entries
from icefloe.iceberg.manifests.manifest_values import partition_types
from icefloe.iceberg.unreadable import UndecodableError
from support.tables.avro_writing import record, write_avro
from support.tables.written_tables import local_io, optional

MANIFEST = ManifestFile(path="m", spec_id=0, holds_deletes=False, added_snapshot_id=7)
Form = tuple[Any, Any]
"""An Avro type, and a value in it as it is encoded."""


def logical(physical: str, name: str, **facts: Any) -> dict[str, Any]:
    return {"type": physical, "logicalType": name, **facts}


def fixed(size: int, **facts: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": f"f{size}", "size": size, **facts}


def big_endian(number: int, size: int) -> bytes:
    return number.to_bytes(size, "big", signed=True)


def instants(nanoseconds: int, unit: int) -> list[Form]:
    """A time as a plain number of its own unit, and by the logical types that can hold it."""
    found: list[Form] = [("long", nanoseconds // unit)]
    for name, size in (("timestamp-nanos", 1), ("timestamp-micros", 1000)):
        if nanoseconds % size == 0:
            avro = [
                logical("long", name),
                logical("long", f"local-{name}"),
                logical("long", name, **{"adjust-to-utc": True}),
            ]
            found += [(each, nanoseconds // size) for each in avro]
    return found


def forms(kind: PrimitiveType, value: Any) -> list[Form]:
    """Avro types in which writers may have a value of a type, with the value."""
    match kind:
        case BooleanType():
            return [("boolean", value), ("int", int(value))]
        case IntegerType() | LongType():
            return [("int", value), ("long", value), (logical("int", "date"), value)]
        case FloatType():
            return [("float", value), ("double", value)]
        case DoubleType():
            return [("double", value)]
        case DecimalType():
            unscaled = int(value.scaleb(kind.scale))
            facts = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
            return [
                (fixed(4) | facts, big_endian(unscaled, 4)), (fixed(16) | facts, big_endian(unscaled, 16)),
                (fixed(9), big_endian(unscaled, 9)), ("bytes", big_endian(unscaled, 5)), ("long", unscaled),
                ({"type": "bytes"} | facts, big_endian(unscaled, 4)), ("string", str(value)),
            ]  # fmt: skip
        case DateType():
            return [("int", value), ("long", value), (logical("int", "date"), value)] + [
                (logical("long", name), value * 86_400 * unit)
                for name, unit in (("timestamp-micros", 10**6), ("timestamp-nanos", 10**9))
                if abs(value) < 10**5
            ]
        case TimeType():
            return [("long", value), (logical("long", "time-micros"), value)]
        case TimestampType() | TimestamptzType():
            return instants(value * 1000, 1000)
        case TimestampNanoType() | TimestamptzNanoType():
            return instants(value, 1)
        case StringType():
            return [("string", value), ("bytes", value.encode())]
        case UUIDType():
            text = {"type": "string", "logicalType": "uuid"}
            return [
                (fixed(16, logicalType="uuid"), value.bytes), (fixed(16), value.bytes), ("bytes", value.bytes),
                ("string", str(value)), (text, str(value)),
            ]  # fmt: skip
        case FixedType():
            return [(fixed(len(kind)), value), ("bytes", value)]
    return [("bytes", value)]


INT, LONG = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (31, 63))
INSTANT = st.one_of(st.just(1_700_000_000_000_000), st.integers(-(10**15), 10**15))
KINDS: list[tuple[PrimitiveType, Any]] = [
    (BooleanType(), st.booleans()), (IntegerType(), INT), (LongType(), LONG), (FloatType(), st.floats(width=32)),
    (DoubleType(), st.floats()), (DecimalType(9, 2), st.decimals(-(10**6), 10**6, places=2)), (DateType(), INT),
    (TimeType(), st.integers(0, 86_399_999_999)), (TimestampType(), INSTANT), (TimestamptzType(), INSTANT),
    (TimestampNanoType(), INSTANT), (TimestamptzNanoType(), INSTANT), (StringType(), st.text()),
    (UUIDType(), st.uuids()), (FixedType(3), st.binary(min_size=3, max_size=3)), (BinaryType(), st.binary()),
]  # fmt: skip


def spec_of(transform: Transform[Any, Any]) -> PartitionSpec:
    return PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=transform, name="part"))


def found_in(path: Path, spec: PartitionSpec, source: PrimitiveType, *values: tuple[Form | None, int]) -> Any:
    """The partition of a data file, which a delete file has too, whose manifest has values by partition field id."""
    fields = [(f"p{field_id}", ["null", "int" if form is None else form[0]], field_id) for form, field_id in values]
    partition = record(*fields, name="r102")
    file = record(
        ("content", "int", 134), ("file_path", "string", 100), ("file_format", "string", 101),
        ("partition", partition, 102), ("record_count", "long", 103), ("file_size_in_bytes", "long", 104), name="r2",
    )  # fmt: skip
    schema = record(("status", "int", 0), ("snapshot_id", ["null", "long"], 1), ("data_file", file, 2))
    row = tuple((0, None) if form is None else (1, form[1]) for form, _ in values)
    write_avro(path, schema, [(1, (1, 7), (1, "f", "PARQUET", row, 1, 1))])
    raw = list(read_manifest_entries(local_io(), str(path)))
    types = partition_types({0: spec}, [Schema(optional("c", source))])[0]
    [data], [deletes] = data_entries(MANIFEST, raw, spec, types), delete_entries(MANIFEST, raw, spec, types)
    assert data.partition == deletes.partition
    return data.partition[1]


@settings(max_examples=5, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize(("kind", "values"), KINDS, ids=str)
def test_a_partition_is_one_whichever_type_a_manifest_gives_its_value(
    tmp_path_factory: pytest.TempPathFactory, kind: PrimitiveType, values: Any, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "entries.avro"
    value = data.draw(values)
    for form in forms(kind, value):
        assert found_in(path, spec_of(IdentityTransform()), kind, (form, 1000)) == (constant_to_json(kind, value),), (
            form
        )


@pytest.mark.parametrize(
    ("transform", "source", "kind", "value"),
    [
        (BucketTransform(16), StringType(), IntegerType(), 7),
        (TruncateTransform(10), DecimalType(9, 2), DecimalType(9, 2), Decimal("-10.20")),
        (TruncateTransform(2), BinaryType(), BinaryType(), b"ab"),
        (TruncateTransform(10), IntegerType(), LongType(), -(2**31) - 2),
        (YearTransform(), DateType(), IntegerType(), 53), (MonthTransform(), TimestampType(), IntegerType(), 646),
        (DayTransform(), TimestamptzNanoType(), DateType(), 19_675),
        (HourTransform(), TimestampType(), LongType(), 2**31 + 7),
    ],
    ids=str,
)  # fmt: skip
def test_a_partition_is_one_whatever_its_transform_is(
    tmp_path: Path, transform: Any, source: PrimitiveType, kind: PrimitiveType, value: Any
) -> None:
    for form in forms(kind, value):
        assert found_in(tmp_path / "m", spec_of(transform), source, (form, 1000)) == (constant_to_json(kind, value),)


def test_partition_values_are_found_by_their_field_ids_and_void_ones_are_null(tmp_path: Path) -> None:
    for form in ((logical("int", "date"), 19_675), (logical("long", "timestamp-micros"), 19_675 * 86_400_000_000)):
        found = found_in(tmp_path / "m", spec_of(IdentityTransform()), TimestampType(), (form, 1000))
        assert found == ("2023-11-14T00:00:00",)
    transforms: list[Transform[Any, Any]] = [IdentityTransform(), VoidTransform(), BucketTransform(4)]
    spec = PartitionSpec(*(PartitionField(1, 1000 + n, each, f"p{n}") for n, each in enumerate(transforms)))
    values = [(("int", 9), 1999), (("int", 3), 1002), (("int", 5), 1001), (("long", 1), 1000)]
    assert found_in(tmp_path / "m", spec, LongType(), *values) == (1, None, 3)
    assert found_in(tmp_path / "m", spec, LongType(), (None, 1000)) == (None, None, None)


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (IntegerType(), ("long", 1 << 31)), (IntegerType(), ("string", "5")), (LongType(), ("double", 5.0)),
        (DateType(), ("long", 1 << 31)), (DateType(), (logical("long", "timestamp-micros"), 1)),
        (DateType(), ("string", "2023-11-14")), (TimeType(), ("long", 86_400_000_000)),
        (TimestampType(), (logical("long", "timestamp-nanos"), 1)),
        (TimestampNanoType(), (logical("int", "date"), 1 << 30)),
        (FloatType(), ("double", 1e300)), (DoubleType(), ("string", "1.5")), (DecimalType(4, 2), ("long", 10_000)),
        (DecimalType(9, 1), (fixed(4, logicalType="decimal", precision=9, scale=2), big_endian(101, 4))),
        (BooleanType(), ("int", 2)), (StringType(), ("int", 1)), (StringType(), ("bytes", b"\xff")),
        (UUIDType(), ("bytes", b"short")), (FixedType(3), ("bytes", b"long")), (BinaryType(), ("int", 1)),
    ],
    ids=str,
)  # fmt: skip
def test_a_value_that_does_not_fit_its_partition_is_damage(tmp_path: Path, kind: PrimitiveType, form: Form) -> None:
    with pytest.raises(UndecodableError, match=r"^file f has a value of type .* in partition field 'part', which does"):
        found_in(tmp_path / "m", spec_of(IdentityTransform()), kind, (form, 1000))


def numbered(*, status: int, number: int | None) -> RawEntry:
    """An entry of a vector with a sequence number, or without one."""
    facts = {134: 1, 100: "v", 101: "PUFFIN", 103: 1, 104: 1, 143: "f", 144: 4, 145: 40}
    file = dict.fromkeys((110, 125, 128, 135)) | facts
    return RawEntry(status=status, snapshot_id=7, sequence_number=number, file=file, partition={})


@pytest.mark.parametrize(
    ("status", "of_manifest", "own", "number"),
    [
        (EntryStatus.EXISTING, 3, None, None),
        (EntryStatus.DELETED, 3, None, None),
        (EntryStatus.DELETED, 3, 2, 2),
        (EntryStatus.ADDED, 3, None, 3),
        (EntryStatus.DELETED, 0, None, 0),
    ],
)
def test_a_delete_file_has_a_sequence_number_or_inherits_it_if_it_was_added_or_the_table_has_none(
    status: EntryStatus, of_manifest: int, own: int | None, number: int | None
) -> None:
    manifest = ManifestFile(path="m", spec_id=0, holds_deletes=True, added_snapshot_id=7, sequence_number=of_manifest)
    entries = delete_entries(manifest, [numbered(status=status, number=own)], PartitionSpec(), ())
    if number is None:
        with pytest.raises(UndecodableError, match=f"delete file v is {status.name} there without a sequence number"):
            list(entries)
    else:
        assert [entry.file.sequence_number for entry in entries] == [number]
