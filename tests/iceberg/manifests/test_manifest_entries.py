"""Entries of manifests as the plan of files compares them."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import DayTransform, IdentityTransform

from icefloe.iceberg.manifests.manifest_entries import EntryStatus, ManifestFile, data_entries, delete_entries
from icefloe.iceberg.manifests.pyiceberg_avro import RawEntry, read_manifest_entries
from icefloe.iceberg.unreadable import UndecodableError
from support.tables.avro_writing import record, write_avro
from support.tables.written_tables import local_io

SPEC = PartitionSpec(
    PartitionField(source_id=1, field_id=1000, transform=DayTransform(), name="at_day"),
    PartitionField(source_id=2, field_id=1001, transform=IdentityTransform(), name="kind"),
)
DATE: dict[str, Any] = {"type": "int", "logicalType": "date"}


def written(path: Path, day: Any, *, content: int) -> list[RawEntry]:
    """The one entry of a manifest whose writer gives the day that type."""
    partition = record(("at_day", ["null", day], 1000), ("kind", ["null", "int"], 1001), name="r102")
    file = record(
        ("content", "int", 134), ("file_path", "string", 100), ("file_format", "string", 101),
        ("partition", partition, 102), ("record_count", "long", 103), ("file_size_in_bytes", "long", 104), name="r2",
    )  # fmt: skip
    schema = record(("status", "int", 0), ("snapshot_id", ["null", "long"], 1), ("data_file", file, 2))
    write_avro(path, schema, [(1, (1, 7), (content, "f", "PARQUET", ((1, 19_000), (1, 5)), 1, 1))])
    return list(read_manifest_entries(local_io(), str(path)))


@pytest.mark.parametrize("type_of_deletes", ["int", DATE], ids=["int", "date"])
@pytest.mark.parametrize("type_of_data", ["int", DATE], ids=["int", "date"])
def test_a_day_is_one_partition_whichever_type_a_manifest_gives_it(
    tmp_path: Path, type_of_data: Any, type_of_deletes: Any
) -> None:
    manifest = ManifestFile(path="m", spec_id=0, holds_deletes=False, added_snapshot_id=7)
    [data] = data_entries(manifest, written(tmp_path / "data.avro", type_of_data, content=0), SPEC)
    [deletes] = delete_entries(manifest, written(tmp_path / "deletes.avro", type_of_deletes, content=2), SPEC)
    assert data.partition == deletes.partition == (0, ("2022-01-08", 5))
    assert data.data_file.constants == {"2": 5}


def numbered(*, status: int, number: int | None) -> RawEntry:
    """An entry of a vector with a sequence number, or without one."""
    facts = {134: 1, 100: "v", 101: "PUFFIN", 103: 1, 104: 1, 143: "f", 144: 4, 145: 40}
    file = dict.fromkeys((110, 125, 128, 135)) | facts
    return RawEntry(
        status=status, snapshot_id=7, sequence_number=number, file_sequence_number=None, file=file, partition=[]
    )


@pytest.mark.parametrize("status", [EntryStatus.EXISTING, EntryStatus.DELETED], ids=str)
def test_a_delete_file_that_is_kept_or_deleted_without_a_sequence_number_is_damage(status: EntryStatus) -> None:
    manifest = ManifestFile(path="m", spec_id=0, holds_deletes=True, added_snapshot_id=7, sequence_number=3)
    with pytest.raises(UndecodableError, match=f"delete file v is {status.name} there without a sequence number"):
        list(delete_entries(manifest, [numbered(status=status, number=None)], PartitionSpec()))
    [entry] = delete_entries(manifest, [numbered(status=status, number=2)], PartitionSpec())
    assert entry.delete_file.sequence_number == 2


def test_an_added_delete_file_and_any_of_a_table_without_numbers_inherits_that_of_its_manifest() -> None:
    for status, number in ((EntryStatus.ADDED, 3), (EntryStatus.DELETED, 0)):
        manifest = ManifestFile(path="m", spec_id=0, holds_deletes=True, added_snapshot_id=7, sequence_number=number)
        [entry] = delete_entries(manifest, [numbered(status=status, number=None)], PartitionSpec())
        assert entry.delete_file.sequence_number == number
