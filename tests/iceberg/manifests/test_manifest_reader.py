from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS, MANIFEST_LIST_FILE_SCHEMAS
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record
from pyiceberg.types import StructType

from icefloe.errors import NotBuiltError, TerminalError, TransientError
from icefloe.iceberg.catalog.file_io import FileGoneError
from icefloe.iceberg.data_file import FileContent
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.manifests import manifest_avro, manifest_reader
from icefloe.iceberg.manifests.manifest_reader import EntryStatus, ManifestReader
from support.tables.planning_tables import edit_metadata, make_table, rows


def write_avro(table: Table, path: Path, schema: Schema, *records: dict[int, Any]) -> str:
    """An Avro file of the V3 schemas, from values by field id; a nested dict is the data_file struct."""
    location = f"file://{path}"
    with AvroOutputFile(table.io.new_output(location), schema, "r", metadata={"format-version": "3"}) as file:
        file.write_block([_record(schema.as_struct(), record) for record in records])
    return location


def _record(struct: StructType, values: dict[int, Any]) -> Record:
    return Record(*(
        _record(field.field_type, values[field.field_id]) if isinstance(values.get(field.field_id), dict) and
        isinstance(field.field_type, StructType) else values.get(field.field_id)
        for field in struct.fields
    ))  # fmt: skip


def v3_table(
    folder: Path, *, holds_deletes: bool, first_row_id: int | None, entries: list[dict[int, Any]], added: int = 1
) -> Table:
    """A table whose head is a hand-made V3 snapshot of one manifest; its list counts ``added`` entries and two more."""
    table = make_table(folder)
    manifest = write_avro(table, folder / "m.avro", MANIFEST_ENTRY_SCHEMAS[3], *entries)
    row = {
        500: manifest, 501: 1, 502: 0, 517: int(holds_deletes), 515: 9, 516: 1, 503: 77, 504: added, 505: 1, 506: 1,
        512: 10, 513: 20, 514: 30, 520: first_row_id,
    }  # fmt: skip
    listed = write_avro(table, folder / "list.avro", MANIFEST_LIST_FILE_SCHEMAS[3], row)
    snapshot = Snapshot(snapshot_id=77, parent_snapshot_id=None, timestamp_ms=1, manifest_list=listed)
    edit_metadata(table, snapshots=[snapshot])
    return table


def file(path: str, count: int, **values: Any) -> dict[int, Any]:
    facts = {134: 0, 100: path, 101: "PARQUET", 102: {}, 103: count, 104: 1}
    return facts | {int(key.removeprefix("f")): value for key, value in values.items()}


def head_manifest(table: Table, reader: ManifestReader) -> Any:
    (manifest,) = reader.manifests(table.metadata.snapshots[-1])
    return manifest


def test_data_files_inherit_snapshot_sequence_number_and_first_row_id(tmp_path: Path) -> None:
    entries = [
        {0: 1, 1: None, 2: file("added", 10)},
        {0: 0, 1: 5, 3: 3, 4: 3, 2: file("existing", 20, f142=500)},
        {0: 2, 1: 77, 3: 2, 4: 2, 2: file("deleted", 30)},
        {0: 1, 1: None, 2: file("added too", 1)},
    ]
    table = v3_table(tmp_path, holds_deletes=False, first_row_id=1000, entries=entries, added=2)
    reader = LoadedTable(table).manifests
    found = reader.data_entries(head_manifest(table, reader))
    assert [(e.status, e.snapshot_id, e.file.sequence_number, e.file.first_row_id) for e in found] == [
        (EntryStatus.ADDED, 77, 9, 1000),
        (EntryStatus.EXISTING, 5, 3, 500),
        (EntryStatus.DELETED, 77, 2, None),
        (EntryStatus.ADDED, 77, 9, 1010),
    ]
    assert reader.manifests_read == 1


def test_without_a_first_row_id_in_the_manifest_list_files_have_those_of_their_entries(tmp_path: Path) -> None:
    own = [{}, {"f142": 500}]
    entries = [{0: status, 1: 77, 3: 1, 4: 1, 2: file("a", 10, **each)} for each in own for status in (1, 0, 2)]
    table = v3_table(tmp_path, holds_deletes=False, first_row_id=None, entries=entries, added=4)
    reader = LoadedTable(table).manifests
    found = [e.file.first_row_id for e in reader.data_entries(head_manifest(table, reader))]
    assert found == [None, None, None, 500, 500, 500]


def test_delete_files_keep_the_values_that_decide_where_they_apply(tmp_path: Path) -> None:
    bounds = {2147483546: b"file:///a"}
    vector = file("dv.puffin", 2, f134=1, f101="PUFFIN", f143="file:///a", f144=4, f145=50)
    position = file("p.parquet", 2, f134=1, f125=bounds, f128=bounds)
    equality = file("e.parquet", 2, f134=2, f135=[1, 2])
    entries = [
        {0: 1, 1: None, 2: vector},
        {0: 0, 1: 5, 3: 3, 4: 3, 2: position},
        {0: 2, 1: 77, 3: 4, 4: 4, 2: equality},
    ]
    table = v3_table(tmp_path, holds_deletes=True, first_row_id=None, entries=entries)
    reader = LoadedTable(table).manifests
    found = reader.delete_entries(head_manifest(table, reader))
    first, _, third = (entry.file for entry in found)
    assert (first.referenced_data_file, first.content_offset, first.content_size_bytes) == ("file:///a", 4, 50)
    assert (first.file_format, first.sequence_number) == ("PUFFIN", 9)
    assert (found[1].lower_bounds, found[1].upper_bounds) == (bounds, bounds)
    assert (third.content, third.equality_field_ids) == (FileContent.EQUALITY_DELETES, (1, 2))
    assert found[2].is_unpartitioned


@pytest.mark.parametrize(
    ("facts", "said"),
    [({"f134": 2}, "equality delete file d names no column"),
     ({"f134": 2, "f135": []}, "equality delete file d names no column"),
     ({"f134": 1, "f101": "PUFFIN", "f144": 4, "f145": 50}, "deletion vector d names no data file")],
    ids=["without columns", "with no column", "without a data file"],
)  # fmt: skip
def test_a_delete_file_that_does_not_say_what_it_deletes_is_damaged(
    tmp_path: Path, facts: dict[str, Any], said: str
) -> None:
    entries = [{0: 1, 1: 77, 3: 1, 4: 1, 2: file("d", 2, **facts)}]
    table = v3_table(tmp_path, holds_deletes=True, first_row_id=None, entries=entries)
    reader = LoadedTable(table).manifests
    with pytest.raises(TerminalError, match=said):
        reader.delete_entries(head_manifest(table, reader))


def test_a_file_with_key_metadata_is_refused_by_its_name(tmp_path: Path) -> None:
    entries = [
        {0: 1, 1: 77, 2: file(name, 10, f131=key)} for name, key in (("a", b""), ("b", None), ("secret", b"key"))
    ]
    table = v3_table(tmp_path, holds_deletes=False, first_row_id=None, entries=entries)
    reader = LoadedTable(table).manifests
    with pytest.raises(NotBuiltError, match="file secret is encrypted"):
        reader.data_entries(head_manifest(table, reader))


@pytest.mark.parametrize("holds_deletes", [False, True])
def test_a_manifest_with_other_entries_than_its_list_says_is_damaged_and_not_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, holds_deletes: bool
) -> None:
    entries = [{0: 1, 1: 77, 3: 1, 4: 1, 2: file("a", 10, f134=int(holds_deletes))}] * 50
    table = v3_table(tmp_path, holds_deletes=holds_deletes, first_row_id=None, entries=entries)
    decoded: list[object] = []

    def counted(*args: Any) -> Iterator[Any]:
        for entry in manifest_avro.read_manifest_entries(*args):
            decoded.append(entry)
            yield entry

    monkeypatch.setattr(manifest_reader, "read_manifest_entries", counted)
    reader = LoadedTable(table).manifests
    read = reader.delete_entries if holds_deletes else reader.data_entries
    with pytest.raises(TerminalError, match="says that it has 3 entries, found more"):
        read(head_manifest(table, reader))
    assert len(decoded) == 4
    (tmp_path / "fewer").mkdir()
    fewer = v3_table(tmp_path / "fewer", holds_deletes=holds_deletes, first_row_id=None, entries=entries[:1])
    reader = LoadedTable(fewer).manifests
    read = reader.delete_entries if holds_deletes else reader.data_entries
    with pytest.raises(TerminalError, match="says that it has 3 entries, found 1"):
        read(head_manifest(fewer, reader))


@pytest.mark.parametrize("limit", ["_MAX_BYTES", "_MAX_LIST_BYTES", "_MOST_TIMES"])
def test_a_manifest_list_that_is_too_large_as_it_is_or_decompressed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert len(LoadedTable(table).manifests.manifests(snapshot)) == 1
    monkeypatch.setattr(manifest_avro, limit, 0)
    with pytest.raises(TerminalError, match=r"ValueError: it(s blocks hold| has) more than"):
        LoadedTable(table).manifests.manifests(snapshot)


def test_a_missing_damaged_or_unreachable_file_is_one_sentence_of_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    snapshot = table.current_snapshot()
    path = Path(snapshot.manifest_list.removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(TerminalError, match=f"the manifest list of snapshot {snapshot.snapshot_id} of table db.events"):
        LoadedTable(table).manifests.manifests(snapshot)
    path.unlink()
    with pytest.raises(FileGoneError, match="is missing"):
        LoadedTable(table).manifests.manifests(snapshot)

    def no_answer(_: str) -> None:
        raise ConnectionResetError("reset")

    monkeypatch.setattr(table.io, "new_input", no_answer)
    with pytest.raises(TransientError, match="cannot read the manifest list"):
        LoadedTable(table).manifests.manifests(snapshot)


def test_a_manifest_list_is_read_once_and_an_unknown_partition_spec_is_one_sentence(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.append(rows(1))
    reader, snapshot = LoadedTable(table).manifests, table.current_snapshot()
    (manifest,) = reader.manifests(snapshot)
    assert reader.manifests(snapshot) is reader.manifests(snapshot)
    edit_metadata(table, partition_specs=[])
    with pytest.raises(TerminalError, match="uses partition spec 0, which the table does not have"):
        LoadedTable(table).manifests.data_entries(manifest)
