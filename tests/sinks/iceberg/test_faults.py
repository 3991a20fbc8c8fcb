"""Commits that land twice or out of order, tables that others maintain, and values that PyIceberg spoils by itself."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import CommitFailedException, ForbiddenError, UnauthorizedError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from icefloe.changes.columns import ChangeColumns
from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.iceberg.target import Token
from icefloe.sinks.iceberg.target_files import WrittenFiles, chunks
from icefloe.testing.staged_history import FLIGHTS, StagedBatch, StagedHistory
from sinks.iceberg.lakes import NAME, Lake

MODES = ["changelog", "mirror"]
PHRASES = pa.schema([("id", pa.int64()), ("phrase", pa.string()), ("word", pa.string())])


@pytest.fixture(params=MODES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return Lake.create(tmp_path, mode=request.param)


@pytest.fixture
def mirror(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path, mode="mirror")


def loaded(lake: Lake) -> StagedHistory:
    history = StagedHistory()
    lake.deliver(*history.load({key: {"word": "a", "number": key} for key in range(5)}))
    return history


def deliver_with(lake: Lake, staged: StagedBatch, commit: Callable[..., Any]) -> Any:
    """Deliver a batch by a sink whose commit is replaced; it gets the real one first."""
    sink = lake.sink()
    real = sink._target._catalog.commit_table
    begun, part = sink.begin(staged.batch), staged.parts[0].whole(staged.parts)
    sink._target._catalog.commit_table = lambda *given: commit(sink, real, *given)  # type: ignore[method-assign]
    return sink.deliver(staged.batch, begun, part)


def holds(lake: Lake, *words: str) -> bool:
    """True if all files that the table names are there, and these words are in its rows."""
    assert lake.named_files() <= lake.files()
    return set(words) <= {row["word"] for row in lake.table.scan().to_arrow().to_pylist()}


def test_a_commit_that_a_client_sends_twice_has_landed(lake: Lake) -> None:
    history = loaded(lake)

    def twice(_sink: Any, real: Callable[..., Any], *given: Any) -> None:
        real(*given)
        raise CommitFailedException("the second request finds the first one's commit")

    assert deliver_with(lake, history.change({0: {"word": "b"}}), twice).repeated == 0
    assert holds(lake, "b")


def test_a_delivery_says_where_the_batch_is_and_how_large_its_files_are(lake: Lake) -> None:
    staged, before, sink = loaded(lake).change({0: {"word": "b"}, 1: None}), lake.files(), lake.sink()
    part = staged.parts[0].whole(staged.parts)
    first, again = (sink.deliver(staged.batch, sink.begin(staged.batch), part) for _ in range(2))
    head = lake.table.metadata.current_snapshot_id
    token = "icefloe.token: generation 1, batch 1"
    assert first.details == again.details == {"branch": "main", "snapshot": str(head), "token": token}
    assert first.bytes == sum(Path(file).stat().st_size for file in lake.files() - before)


def test_a_landed_commit_keeps_its_files_if_the_look_after_it_is_refused(lake: Lake) -> None:
    history = loaded(lake)

    def lose(sink: Any, real: Callable[..., Any], *given: Any) -> None:
        real(*given)

        def refuse(_name: str) -> Table:
            raise UnauthorizedError("the token has expired")

        sink._target._catalog.load_table = refuse
        raise ConnectionError("no reply")

    with pytest.raises(TransientError, match="did not say whether a commit"):
        deliver_with(lake, history.change({0: {"word": "b"}}), lose)
    assert holds(lake, "b")


def test_files_of_rows_that_failed_midway_are_written_again(lake: Lake) -> None:
    history = loaded(lake)
    with lake.table.transaction() as transaction:
        transaction.set_properties({"write.parquet.row-group-limit": "1"})
    files, table = WrittenFiles(), lake.table
    rows = table.scan().to_arrow().to_batches()

    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows
        raise TerminalError("a staged file is gone")

    before = lake.files()
    with pytest.raises(TerminalError, match="is gone"):
        files.of(Transaction(table), broken)
    found = files.of(Transaction(table), lambda: rows)
    assert sum(file.record_count for file in found) == sum(each.num_rows for each in rows) == len(history.rows)
    assert len(lake.files() - before) == len(found) == 5


def test_a_refused_commit_is_no_unknown_one_and_leaves_no_file(lake: Lake) -> None:
    history = loaded(lake)

    def refuse(*_: Any) -> None:
        raise ForbiddenError("may not commit")

    with pytest.raises(TerminalError, match="cannot commit to table"):
        deliver_with(lake, history.change({0: {"word": "b"}}), refuse)
    assert lake.named_files() == lake.files()


def test_a_commit_to_another_branch_costs_a_try(lake: Lake) -> None:
    history = loaded(lake)
    rows, head = lake.table.scan().to_arrow().slice(0, 1), lake.table.metadata.current_snapshot_id
    assert head is not None
    lake.table.manage_snapshots().create_branch(head, "other").commit()
    lake.between.append(lambda: lake.table.append(rows, branch="other"))
    lake.deliver(history.change({0: {"word": "b"}}))
    assert holds(lake, "b")


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_zombie_lands_in_no_load(mirror: Lake, version: str) -> None:
    mirror.catalog.create_table(NAME, Schema(), properties={"format-version": version})
    history = loaded(mirror)
    zombie = history.change({0: {"word": "zombie"}})
    first, last = history.load({key: {"word": "z"} for key in range(4)}, batches=2)
    mirror.between.append(lambda: mirror.deliver(first))
    sink = mirror.sink()
    with pytest.raises(TerminalError):
        sink.deliver(zombie.batch, sink.begin(zombie.batch), zombie.parts[0].whole(zombie.parts))
    mirror.deliver(last)
    assert {row["word"] for row in mirror.table.scan().to_arrow().to_pylist()} == {"z"}


def test_an_expired_snapshot_in_between_is_no_rollback(lake: Lake) -> None:
    history = loaded(lake)
    ours = lake.table.metadata.current_snapshot_id
    assert ours is not None
    lake.table.manage_snapshots().create_tag(ours, "kept").commit()
    rows = lake.table.scan().to_arrow()
    between = []
    for _ in range(2):
        lake.table.overwrite(rows)
        between += [each.snapshot_id for each in lake.table.metadata.snapshots if each.snapshot_id != ours]
    head = lake.table.metadata.current_snapshot_id
    gone = sorted({*between} - {head})
    lake.table.maintenance.expire_snapshots().by_ids(gone).commit()
    lake.deliver(history.change({0: {"word": "b"}}))
    assert holds(lake, "b")


def test_null_lists_and_maps_of_structs_stay_null(lake: Lake) -> None:
    inner = pa.struct([("x", pa.int64())])
    history = StagedHistory()
    history.evolve(pa.schema([*FLIGHTS, ("legs", pa.list_(inner)), ("by", pa.map_(pa.string(), inner))]))
    rows: dict[int, dict[str, Any]] = {
        0: {"legs": None, "by": None},
        1: {"legs": [], "by": []},
        2: {"legs": [{"x": 1}], "by": [("a", {"x": 2})]},
    }
    lake.deliver(*history.load(rows))
    [file] = lake.named_files()
    found = pq.ParquetFile(file).read().sort_by("id")
    assert found.column("legs").to_pylist() == [rows[key]["legs"] for key in range(3)]
    assert found.column("by").to_pylist() == [rows[key]["by"] for key in range(3)]
    for column in (found.schema.field("legs").type.value_field, found.schema.field("by").type.item_field):
        assert all(b"PARQUET:field_id" in (each.metadata or {}) for each in (column, column.type.field("x")))


def test_each_file_has_one_row_group_so_that_its_bounds_hold(lake: Lake) -> None:
    lake.catalog.create_table(NAME, Schema(), properties={"write.parquet.row-group-limit": "2"})
    loaded(lake)
    groups = [pq.ParquetFile(file).metadata.num_row_groups for file in lake.named_files()]
    assert groups == [1] * len(groups)
    assert len(groups) > 1


def test_a_column_of_the_partitions_may_be_missing_in_the_source(lake: Lake) -> None:
    schema = Schema(NestedField(1, "note", StringType()), NestedField(2, "id", LongType()))
    by_note = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "note"))
    lake.catalog.create_table(NAME, schema, partition_spec=by_note)
    history = loaded(lake)
    lake.deliver(history.change({0: {"word": "b"}, 1: None}))
    assert holds(lake, "b")


def test_required_and_identifier_columns_of_the_target_stay_so(lake: Lake) -> None:
    lake.catalog.create_table(NAME, Schema(NestedField(1, "id", LongType(), required=True), identifier_field_ids=[1]))
    history = loaded(lake)
    lake.deliver(history.change({0: {"word": "b"}}))
    assert lake.table.schema().find_field("id").required
    assert lake.table.schema().identifier_field_ids == [1]


def test_a_new_column_with_a_default_needs_a_load(mirror: Lake) -> None:
    history = loaded(mirror)
    history.evolve(pa.schema([*FLIGHTS, ("grade", pa.string())]), new={"grade": "A"})
    staged = history.change({0: {"word": "b"}})
    with pytest.raises(TerminalError, match=r"column grade of table nyc\.flights has an initial default"):
        mirror.sink().begin(staged.batch)


def test_a_replay_makes_no_mirror(mirror: Lake) -> None:
    history = StagedHistory()
    [load] = history.load({1: {"word": "a"}})
    mirror.deliver(load)
    other = Lake.create(mirror.folder / "other", mode="mirror")
    other.sink().claim(history.origin)
    with pytest.raises(TerminalError, match="batch 1 alone does not make iceberg://lake/changes"):
        other.sink().begin(history.change({1: {"word": "b"}}).replayed().batch)


def test_a_replay_does_not_leave_batches_out(lake: Lake) -> None:
    history = loaded(lake)
    _lost, later = history.change({0: {"word": "b"}}), history.change({1: {"word": "c"}})
    with pytest.raises(TerminalError, match="deliver the batches between them first"):
        lake.sink().begin(later.replayed().batch)


def test_a_load_that_was_given_up_leaves_no_branch(mirror: Lake) -> None:
    history = loaded(mirror)
    first, _ = history.load({key: {"word": "y"} for key in range(4)}, batches=2)
    mirror.deliver(first)
    mirror.deliver(*history.load({key: {"word": "z"} for key in range(4)}))
    assert set(mirror.table.metadata.refs) == {"main"}
    assert holds(mirror, "z")


def test_rows_from_before_the_first_batch_are_nobodys(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    history = StagedHistory()
    lake.sink().claim(history.origin)
    with lake.table.update_schema() as update:
        update.add_column("id", LongType())
    lake.table.append(pa.table({"id": pa.array([77], pa.int64())}))
    lake.deliver(*history.load({1: {"word": "a"}}))
    assert sorted(row["id"] for row in lake.table.scan().to_arrow().to_pylist()) == [1, 77]


def test_a_file_of_the_target_that_is_gone_is_an_error_in_words(lake: Lake) -> None:
    history = loaded(lake)
    head = lake.table.current_snapshot()
    assert head is not None
    Path(head.manifest_list.removeprefix("file://")).unlink()
    with pytest.raises(TerminalError, match="names a file that is gone"):
        lake.deliver(history.change({0: {"word": "b"}}))
    assert Token.of(lake.table, "it").last.number == 0


def test_a_table_that_was_compacted_and_expired_meanwhile_is_read_again(mirror: Lake) -> None:
    mirror.catalog.create_table(NAME, Schema(), properties={"write.merge.mode": "merge-on-read"})
    history = loaded(mirror)
    staged = history.change({0: {"word": "b"}})
    sink = mirror.sink()
    begun, load = sink.begin(staged.batch), sink._target.load

    def once() -> Table:
        stale = load()
        sink._target.load = load  # type: ignore[method-assign]
        files = mirror.named_files()
        mirror.table.overwrite(mirror.table.scan().to_arrow())
        for file in files:
            Path(file).unlink()
        return stale

    sink._target.load = once  # type: ignore[method-assign]
    assert sink.deliver(staged.batch, begun, staged.parts[0].whole(staged.parts)).rows == 2
    assert holds(mirror, "b")


def test_several_rows_of_a_key_are_named_as_such(mirror: Lake) -> None:
    history = loaded(mirror)
    mirror.table.append(mirror.table.scan(row_filter="id = 3").to_arrow())
    with pytest.raises(TerminalError, match="several rows of a key, such as id=3: correct identifier_columns"):
        mirror.deliver(history.change({3: None}))


def test_a_part_of_a_batch_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    history = loaded(lake)
    again = replace(history.change({0: {"word": "b"}, 1: {"word": "c"}}))
    lake.deliver(again)
    lake.table.delete("_batch = 1 and id = 0")
    replayed = again.replayed()
    sink = lake.sink()
    begun = sink.begin(replayed.batch)
    with pytest.raises(TerminalError, match="holds 2 of the 4 changes of batch 1"):
        sink.deliver(replayed.batch, begun, replayed.parts[0].whole(replayed.parts))
    lake.table.delete("_batch = 1")
    assert sink.deliver(replayed.batch, begun, replayed.parts[0].whole(replayed.parts)).repeated == 0
    assert holds(lake, "b", "c")


def test_a_replay_after_the_last_batch_renames_and_an_earlier_one_leaves_names_alone(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    history = loaded(lake)
    old = history.change({0: {"word": "b"}})
    history.evolve(PHRASES, renamed={"phrase": "word"}, new={"word": None})
    lake.deliver(old, history.change({1: {"phrase": "c", "word": "new"}}).replayed())
    assert lake.table.schema().column_names[-4:] == ["id", "phrase", "number", "word"]
    lake.table.delete("_batch = 1")
    with pytest.raises(TerminalError, match=r"batch 1 has column word, which .* lacks or calls otherwise by now"):
        lake.deliver(replace(old.replayed(), ended=Event()))
    lake.table.delete("_batch = 2")
    again = history.change({2: {"phrase": "d"}})
    lake.deliver(again)
    lake.table.delete("_batch = 3")
    lake.deliver(replace(again.replayed(), ended=Event()))
    assert {row["phrase"] for row in lake.rows() if row["_batch"] == 3} == {"a", "d"}


def test_changes_are_read_back_by_the_names_that_their_columns_had(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    history = StagedHistory()
    lake.deliver(*history.load({1: {"word": "a", "number": 7}}))
    before = ChangeColumns.schema(history.schema, with_batch=True)
    history.evolve(PHRASES, renamed={"phrase": "word"}, new={"word": None})
    lake.deliver(history.change({1: {"phrase": "b", "word": "new"}}))
    after = ChangeColumns.schema(history.schema, with_batch=True)
    read = lake.sink().read_back_as_written(lambda number: after if number else before)
    rows = [row for batch in read for row in batch.to_pylist()]
    assert [row["word"] for row in rows] == ["a", None, "new"]
    assert [row.get("phrase") for row in rows] == [None, "a", "b"]


def test_fields_whose_names_were_swapped_since_are_read_right_after_an_expiry(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    inner = pa.struct([("origin", pa.string()), ("to", pa.string())])
    history = StagedHistory(schema=pa.schema([*FLIGHTS, ("other", pa.string()), ("at", inner)]))
    row = {"word": "word", "other": "other", "at": {"origin": "a", "to": "b"}}
    lake.deliver(*history.load({1: row}))
    schema = ChangeColumns.schema(history.schema, with_batch=True)
    names = ("word", "other", "at.origin", "at.to")
    swapped = dict(zip(names, ("other", "word", "at.to", "at.origin"), strict=True))
    history.evolve(history.schema, renamed=swapped)
    lake.deliver(history.change({1: row}))
    head = lake.table.metadata.current_snapshot_id
    gone = [each.snapshot_id for each in lake.table.metadata.snapshots if each.snapshot_id != head]
    lake.table.maintenance.expire_snapshots().by_ids(gone).commit()
    read = [row for batch in lake.sink().read_back_as_written(lambda _: schema) for row in batch.to_pylist()]
    assert [{name: each[name] for name in row} for each in (read[0], read[2])] == [row, row]


def test_rows_of_files_with_other_types_of_text_become_one_file() -> None:
    batches = [pa.record_batch({"a": pa.array(["x"], kind)}) for kind in (pa.string(), pa.large_string())]
    [found] = chunks(batches, SimpleNamespace(properties={}))  # type: ignore[arg-type]
    assert found.column("a").to_pylist() == ["x", "x"]


def test_another_name_of_the_catalog_leads_to_the_same_destination(lake: Lake) -> None:
    history = loaded(lake)
    staged = history.change({0: {"word": "b"}})
    first, second = lake.sink(), lake.sink()
    second._target.url = "iceberg://another/changes.flights"
    assert first.begin(staged.batch) == second.begin(staged.batch)
