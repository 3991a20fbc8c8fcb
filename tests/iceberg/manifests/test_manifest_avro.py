"""Records of manifests and their lists, as PyIceberg and others write them."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from icefloe.iceberg.manifests.manifest_avro import FieldSummary, RawEntry, read_manifest_entries, read_manifest_list
from support.tables.avro_writing import record, write_avro
from support.tables.planning_tables import make_table, rows
from support.tables.written_tables import local_io


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
        (entry,) = read_manifest_entries(table.io, manifest["path"])
        assert entry.status == 1
        assert entry.file[103] == 2
        assert entry.file[101] == "PARQUET"
        assert entry.file[125][1] == (1).to_bytes(8, "little")


def entries_of(folder: Path, partition: list[tuple[str, Any, int]], *values: tuple[Any, ...]) -> list[RawEntry]:
    """The entries of a manifest of files with these partitions."""
    file = record(
        ("file_path", "string", 100), ("file_format", "string", 101),
        ("partition", record(*partition, name="r102"), 102),
        ("record_count", "long", 103), ("file_size_in_bytes", "long", 104), name="r2",
    )  # fmt: skip
    path = folder / "manifest.avro"
    schema = record(("status", "int", 0), ("data_file", file, 2))
    write_avro(path, schema, [(1, ("f", "avro", each, 7, 1)) for each in values])
    return list(read_manifest_entries(local_io(), str(path)))


def test_doubles_of_partitions_keep_every_bit_and_named_types_are_known_where_they_are_used_again(
    tmp_path: Path,
) -> None:
    decimal = {"type": "fixed", "name": "decimal_9_2", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}
    partition: list[tuple[str, Any, int]] = [
        ("x", ["null", "double"], 1000),
        ("d", ["null", decimal], 1001),
        ("e", ["null", "decimal_9_2"], 1002),
        ("u", {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}, 1003),
        ("v", ["null", "uuid_fixed"], 1004),
        ("at", {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True}, 1005),
    ]
    decimal_bytes, nanos = (-125).to_bytes(4, "big", signed=True), 1_700_000_000_123_456_789
    values = ((1, 0.1), (1, decimal_bytes), (0, None), b"k" * 16, (1, b"v" * 16), nanos)
    (entry,) = entries_of(tmp_path, partition, values)
    assert entry.partition == {
        1000: ("double", 0.1),
        1001: ("decimal", Decimal("-1.25")),
        1002: ("decimal", None),
        1003: ("fixed", b"k" * 16),
        1004: ("fixed", b"v" * 16),
        1005: ("timestamp-nanos", nanos),
    }


OPTIONAL_BOUNDS = {
    "type": "array", "logicalType": "map", "items": record(("key", "int", 126), ("value", ["null", "bytes"], 127)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (("file_path", "bytes", 100), "field 100 has the type bytes"),
        (("lower_bounds", OPTIONAL_BOUNDS, 125), "field 125 has the type array<record>"),
        (("lower_bounds", {"type": "map", "values": "bytes", "key-id": 126, "value-id": 127}, 125), "map"),
        (("path", "string", 99), "field 100 is missing"),
        (("partition", record(("x", record(("y", "int", 9), name="r9"), 8), name="r8"), 102), "nested types"),
        (("partition", record(("p", "string", "1000"), name="r8"), 102), "one without a number"),
    ],
    ids=[
        "another type",
        "bounds that may be null",
        "a map of texts",
        "none",
        "a partition of structs",
        "an id that is a text",
    ],
)
def test_a_schema_without_the_fields_of_the_spec_is_refused(tmp_path: Path, field: Any, said: str) -> None:
    fields = {
        "file_path": ("string", 100), "file_format": ("string", 101), "partition": (record(name="r102"), 102),
        "record_count": ("long", 103), "file_size_in_bytes": ("long", 104),
    }  # fmt: skip
    if "missing" in said:
        del fields["file_path"]
    fields[field[0]] = field[1:]
    file = record(*((name, *each) for name, each in fields.items()), name="r2")
    write_avro(tmp_path / "m.avro", record(("status", "int", 0), ("data_file", file, 2)), [])
    with pytest.raises((LookupError, ValueError), match=said):
        list(read_manifest_entries(local_io(), str(tmp_path / "m.avro")))
