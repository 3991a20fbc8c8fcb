"""Pins what we rely on of PyIceberg 0.12.0 beyond its public interface; an upgrade that breaks it must show here."""

from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from pyiceberg.avro.file import AvroFile
from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS, MANIFEST_LIST_FILE_SCHEMAS
from pyiceberg.types import DecimalType, DoubleType, ListType, StructType, TimestamptzNanoType, UUIDType

from icefloe.iceberg.manifests.pyiceberg_avro import (
    MANIFEST_FIELDS,
    SUMMARY_FIELDS,
    FieldSummary,
    read_manifest_entries,
    read_manifest_list,
)
from support.tables.avro_writing import record, write_avro
from support.tables.planning_tables import make_table, rows
from support.tables.written_tables import local_io


def test_the_v3_schemas_have_the_fields_that_the_readers_of_pyiceberg_drop() -> None:
    data_file = MANIFEST_ENTRY_SCHEMAS[3].find_field(2).field_type
    assert isinstance(data_file, StructType)
    names = {field.field_id: field.name for field in data_file.fields}
    assert {key: names[key] for key in (134, 100, 101, 102, 103, 104, 125, 128, 135, 142, 143, 144, 145)} == {
        134: "content",
        100: "file_path",
        101: "file_format",
        102: "partition",
        103: "record_count",
        104: "file_size_in_bytes",
        125: "lower_bounds",
        128: "upper_bounds",
        135: "equality_ids",
        142: "first_row_id",
        143: "referenced_data_file",
        144: "content_offset",
        145: "content_size_in_bytes",
    }


def test_the_partition_of_the_read_schema_is_empty_so_that_the_file_s_own_is_read() -> None:
    data_file = MANIFEST_ENTRY_SCHEMAS[3].find_field(2).field_type
    assert isinstance(data_file, StructType)
    partition = next(field for field in data_file.fields if field.field_id == 102).field_type
    assert partition == StructType()


def test_the_manifest_list_has_our_fields() -> None:
    fields = {field.field_id: field.name for field in MANIFEST_LIST_FILE_SCHEMAS[3].fields}
    assert {name: fields[field_id] for name, field_id in MANIFEST_FIELDS.items()} == {
        name: name for name in MANIFEST_FIELDS
    }


def test_the_partitions_of_a_manifest_list_have_our_fields() -> None:
    summaries = MANIFEST_LIST_FILE_SCHEMAS[3].find_field(507).field_type
    assert isinstance(summaries, ListType)
    fields = {field.field_id: field.name for field in summaries.element_type.fields}
    assert {name: fields[field_id] for name, field_id in SUMMARY_FIELDS.items()} == {
        name: name for name in SUMMARY_FIELDS
    }


def test_partitions_of_a_manifest_are_read_from_its_list(tmp_path: Path) -> None:
    for version in (1, 2):
        table = make_table(tmp_path, name=f"v{version}", format_version=version)
        with table.update_spec() as update:
            update.add_identity("value")
            update.add_identity("day")
        table.append(rows(1, value="a"))
        table.append(rows(2, value="bc"))
        newest, oldest = read_manifest_list(table.io, table.current_snapshot().manifest_list)
        day = FieldSummary(contains_null=False, lower_bound=b"\1\0\0\0", upper_bound=b"\1\0\0\0")
        assert newest["partitions"] == (FieldSummary(contains_null=False, lower_bound=b"bc", upper_bound=b"bc"), day)
        assert oldest["partitions"] == (FieldSummary(contains_null=False, lower_bound=b"a", upper_bound=b"a"), day)


def test_an_avro_file_has_the_schema_it_was_written_with(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    with AvroFile(table.io.new_input(table.current_snapshot().manifest_list)) as file:
        assert file.schema.find_field(500).name == "manifest_path"


def test_manifests_of_v1_and_v2_are_read_with_the_v3_schemas(tmp_path: Path) -> None:
    for version in (1, 2):
        table = make_table(tmp_path, name=f"v{version}", format_version=version)
        table.append(rows(1, 2))
        snapshot = table.current_snapshot()
        (manifest,) = read_manifest_list(table.io, snapshot.manifest_list)
        assert manifest["added_snapshot_id"] == snapshot.snapshot_id
        assert (manifest["added_files_count"], manifest["added_rows_count"]) == (1, 2)
        assert manifest["sequence_number"] == (0 if version == 1 else 1)
        assert manifest["first_row_id"] is None
        (entry,) = read_manifest_entries(table.io, manifest["manifest_path"])
        assert entry.status == 1
        assert entry.file[103] == 2
        assert entry.file[101] == "PARQUET"
        assert entry.file[125][1] == (1).to_bytes(8, "little")


def test_doubles_of_partitions_keep_every_bit_and_named_types_are_known_where_they_are_used_again(
    tmp_path: Path,
) -> None:
    decimal = {"type": "fixed", "name": "decimal_9_2", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}
    partition = record(
        ("x", ["null", "double"], 1000),
        ("d", ["null", decimal], 1001),
        ("e", ["null", "decimal_9_2"], 1002),
        ("u", {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}, 1003),
        ("v", ["null", "uuid_fixed"], 1004),
        ("at", {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True}, 1005),
        name="r102",
    )
    file = record(
        ("file_path", "string", 100), ("file_format", "string", 101), ("partition", partition, 102),
        ("record_count", "long", 103), ("file_size_in_bytes", "long", 104), name="r2",
    )  # fmt: skip
    values = (
        (1, 0.1),
        (1, (-125).to_bytes(4, "big", signed=True)),
        (0, None),
        b"k" * 16,
        (1, b"v" * 16),
        1_700_000_000_123_456_789,
    )
    write_avro(
        tmp_path / "manifest.avro",
        record(("status", "int", 0), ("data_file", file, 2)),
        [(1, ("f", "avro", values, 1, 1))],
    )
    (entry,) = read_manifest_entries(local_io(), str(tmp_path / "manifest.avro"))
    assert entry.partition == [
        (1000, DoubleType(), 0.1),
        (1001, DecimalType(9, 2), Decimal("-1.25")),
        (1002, DecimalType(9, 2), None),
        (1003, UUIDType(), UUID(bytes=b"k" * 16)),
        (1004, UUIDType(), UUID(bytes=b"v" * 16)),
        (1005, TimestamptzNanoType(), 1_700_000_000_123_456_789),
    ]


@pytest.mark.parametrize("before", [b"", b"\x04"], ids=["as Avro says", "with its length, as Iceberg's Java library"])
def test_fixed_values_of_partitions_are_read_however_they_were_written(tmp_path: Path, before: bytes) -> None:
    fixed = {"type": "fixed", "name": "fixed_2", "size": 2}
    partition = record(("a", ["null", fixed], 1000), ("b", ["null", "fixed_2"], 1001), name="r102")
    file = record(
        ("file_path", "string", 100), ("file_format", "string", 101), ("partition", partition, 102),
        ("record_count", "long", 103), ("file_size_in_bytes", "long", 104), name="r2",
    )  # fmt: skip
    values = [((1, before + b"ab"), (0, None)), ((1, before + b"\0\0"), (1, before + b"\xff\xff"))]
    write_avro(
        tmp_path / "manifest.avro",
        record(("status", "int", 0), ("data_file", file, 2)),
        [(1, ("f", "avro", each, 7, 1)) for each in values],
    )
    entries = list(read_manifest_entries(local_io(), str(tmp_path / "manifest.avro")))
    assert [[value for _, _, value in entry.partition] for entry in entries] == [
        [b"ab", None],
        [b"\0\0", b"\xff\xff"],
    ]
    assert [entry.file[103] for entry in entries] == [7, 7]


def test_fixed_values_of_partitions_that_fit_neither_way_are_an_error_and_no_crash(tmp_path: Path) -> None:
    partition = record(("a", {"type": "fixed", "name": "fixed_2", "size": 2}, 1000), name="r102")
    file = record(
        ("file_path", "string", 100), ("file_format", "string", 101), ("partition", partition, 102),
        ("record_count", "long", 103), ("file_size_in_bytes", "long", 104), name="r2",
    )  # fmt: skip
    schema = record(("status", "int", 0), ("data_file", file, 2))
    write_avro(tmp_path / "manifest.avro", schema, [(1, ("f", "avro", (b"\x06abc",), 1, 1))])
    with pytest.raises(ValueError, match="a fixed value of 2 bytes has the length 3 before it"):
        list(read_manifest_entries(local_io(), str(tmp_path / "manifest.avro")))
