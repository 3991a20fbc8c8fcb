import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe.api import read_changes
from icefloe.batch import changelog_scan
from icefloe.batch.context.batch_folder import MapInputs
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.reduce import read_range
from icefloe.changes.consolidate import consolidate
from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.errors import TerminalError, UsageError
from icefloe.iceberg.files.reader import FileReader
from icefloe.iceberg.history.history import ExpiredHistoryError
from icefloe.shuffle.committed_output import MapOutputRecord
from support.pipelines.workshop import Workshop, typed_changes
from support.spark.row_counts import difference, weights_of
from support.tables.events import SCHEMA, rows


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """A table with some history."""
    found = Workshop.create(tmp_path)
    found.append([*range(30), 7])
    found.update([1, 2], value=2.0)
    found.delete([3])
    found.append([100])
    return found


def changes_of(workshop: Workshop, **options: Any) -> pa.Table:
    return read_changes(workshop.table.refresh(), **options).read_all()


@pytest.fixture(autouse=True)
def no_folder_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


def test_every_range_adds_up_to_the_difference_of_its_states(workshop: Workshop) -> None:
    ids = [None, *workshop.snapshot_ids()]
    for at, after in enumerate(ids):
        for up_to in ids[max(at, 1) :]:
            expected = difference(workshop.state(after), workshop.state(up_to))
            changes = changes_of(workshop, after_snapshot_id=after, up_to_snapshot_id=up_to)
            assert weights_of(changes) == expected


def test_spilled_rows_are_on_the_disk_of_tasks_where_the_next_one_removes_what_a_killed_one_left(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(disk))
    with read_changes(workshop.table.refresh(), after_snapshot_id=workshop.snapshot_ids()[0]) as reader:
        reader.read_next_batch()
        assert [each.suffix for each in disk.iterdir()] == [".task"]
    del reader
    assert list(disk.iterdir()) == []


def test_columns_come_in_their_order_and_types(workshop: Workshop) -> None:
    reader = read_changes(workshop.table.refresh())
    with reader:
        assert reader.schema.names == [
            "_change_type", "_change_ordinal", "_commit_snapshot_id", "_commit_timestamp", *SCHEMA.names,
        ]  # fmt: skip
        assert reader.schema.types[:4] == [pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", tz="UTC")]
        reader.read_all()


def test_with_identity_deletes_and_inserts_pair(workshop: Workshop) -> None:
    first, *_ = workshop.snapshot_ids()
    changes = changes_of(workshop, after_snapshot_id=first, identifier_columns=["id"])
    assert Counter(changes["_change_type"].to_pylist()) == {
        "UPDATE_BEFORE": 2, "UPDATE_AFTER": 2, "DELETE": 1, "INSERT": 1,
    }  # fmt: skip
    assert sorted(set(changes["_change_ordinal"].to_pylist())) == [0, 1, 2]
    without = changes_of(workshop, after_snapshot_id=first)
    assert Counter(without["_change_type"].to_pylist()) == {"DELETE": 3, "INSERT": 3}


def test_net_changes_are_the_last_state_against_the_first(workshop: Workshop) -> None:
    workshop.delete([100])
    workshop.update([1], value=1.0)
    first, *_ = workshop.snapshot_ids()
    changes = changes_of(workshop, after_snapshot_id=first, identifier_columns=["id"], changes="net")
    found = zip(changes["id"].to_pylist(), changes["_change_type"].to_pylist(), strict=True)
    assert sorted(found) == [(2, "UPDATE_AFTER"), (2, "UPDATE_BEFORE"), (3, "DELETE")]
    assert weights_of(changes) == difference(workshop.state(first), workshop.state(workshop.head()))


def test_timestamps_mean_the_snapshots_of_their_time(workshop: Workshop) -> None:
    first, *_, last = workshop.snapshot_ids()
    found = workshop.table.snapshot_by_id(first)
    assert found is not None
    after = datetime.fromtimestamp(found.timestamp_ms / 1000, UTC)
    by_id = changes_of(workshop, after_snapshot_id=first, up_to_snapshot_id=last)
    by_time = changes_of(workshop, after_timestamp=after, up_to_timestamp=datetime.now(UTC) + timedelta(days=1))
    order = [(name, "ascending") for name in by_id.column_names]
    assert by_time.sort_by(order) == by_id.sort_by(order)
    with pytest.raises(UsageError, match=r"after_timestamp .* has no offset"):
        read_changes(workshop.table, after_timestamp=after.replace(tzinfo=None))


def test_an_empty_range_has_the_columns_and_no_rows(workshop: Workshop) -> None:
    head = workshop.head()
    assert changes_of(workshop, after_snapshot_id=head).num_rows == 0
    assert changes_of(workshop, after_snapshot_id=head).schema.names[4:] == SCHEMA.names
    past = datetime(2001, 1, 1, tzinfo=UTC)
    assert changes_of(workshop, up_to_timestamp=past).num_rows == 0


def test_gaps_in_the_knowledge_of_the_plan_are_logged(workshop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    with workshop.table.transaction() as transaction:
        transaction.set_properties({"write.metadata.previous-versions-max": "1"})
    for start in (200, 300, 400):
        workshop.append(range(start, start + 2))
    read_changes(workshop.table).read_all()
    assert [record.levelname for record in caplog.records if "committed together" in record.getMessage()] == ["WARNING"]


def test_a_table_without_snapshots_has_no_changes(tmp_path: Path) -> None:
    assert changes_of(Workshop.create(tmp_path / "empty")).num_rows == 0


def test_rows_come_in_the_schema_of_the_last_snapshot(workshop: Workshop) -> None:
    with workshop.table.update_schema() as update:
        update.rename_column("word", "text")
    workshop.delete([5])
    assert changes_of(workshop).schema.names[4:] == ["id", "value", "text"]


def test_a_history_that_expired_is_an_error_that_names_the_oldest_snapshot_left(workshop: Workshop) -> None:
    first, second, third, *_ = workshop.snapshot_ids()
    workshop.table.refresh().maintenance.expire_snapshots().by_ids([first, second]).commit()
    with pytest.raises(ExpiredHistoryError, match=f"the oldest is {third}"):
        changes_of(workshop, after_snapshot_id=first)
    with pytest.raises(ExpiredHistoryError, match=f"the oldest is {third}"):
        changes_of(workshop)


@pytest.mark.parametrize("option", [{"changes": "all"}, {"commit_groups": "join"}])
def test_values_that_no_release_knows_are_refused_with_those_there_are(
    workshop: Workshop, option: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match=r"is unknown: expected (each or net|fuse or split)$"):
        read_changes(workshop.table, **option)


def test_arguments_of_another_type_are_refused(workshop: Workshop) -> None:
    with pytest.raises(UsageError, match=r"takes a pyiceberg\.table\.Table, .* not 'nyc\.flights'"):
        read_changes("nyc.flights")  # type: ignore[arg-type]
    for columns, shown in (("id", "'id'$"), ([1], r"\[1\]$"), (iter(["id"]), "<list_iterator")):
        with pytest.raises(
            UsageError, match=rf"^columns must be a list of column names, such as \['id', 'at'\], not {shown}"
        ):
            changes_of(workshop, columns=columns)
    with pytest.raises(UsageError, match=r"^filter must be a text such as .*, not 5$"):
        changes_of(workshop, filter=5)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"columns": []}, "columns is empty: name at least one column"),
        ({"columns": ["vlue"]}, "selected column 'vlue' is not in the table; did you mean 'value'"),
        ({"filter": " "}, "filter is empty"),
        ({"filter": "id >"}, "filter 'id >' cannot be read"),
        ({"filter": "ids = 1"}, "filter names column 'ids', which table .*events does not have; did you mean 'id'"),
        ({"filter": "id = 'a'"}, "filter compares column 'id' of table .*events, of type long, with 'a'"),
    ],
)
def test_columns_and_filters_that_do_not_fit_are_refused_before_anything_is_read(
    workshop: Workshop, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(TerminalError, match=f"^{sentence}"):
        read_changes(workshop.table, **options)


def test_errors_of_reading_reach_the_reader(workshop: Workshop) -> None:
    [gone, *_] = [
        Path(path.removeprefix("file://")) for path in workshop.table.inspect.files()["file_path"].to_pylist()
    ]
    gone.unlink()
    reader = read_changes(workshop.table.refresh())
    with pytest.raises(TerminalError, match=gone.name):
        reader.read_all()


def test_rows_that_do_not_add_up_are_an_error_at_the_end(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def lossy(*arguments: Any) -> Any:
        positions, weights = consolidate(*arguments)
        return positions[1:], weights[1:]

    monkeypatch.setattr(read_range, "consolidate", lossy)
    with pytest.raises(TerminalError, match="range 0 of batch 0 does not add up"):
        changes_of(workshop, after_snapshot_id=workshop.snapshot_ids()[0])


def test_a_reader_that_is_closed_early_leaves_nothing(workshop: Workshop) -> None:
    reader = read_changes(workshop.table.refresh())
    assert reader.read_next_batch().num_rows > 0
    reader.close()
    del reader
    read_changes(workshop.table.refresh())


def test_map_tasks_in_several_threads_share_no_footers(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[FileReader] = []

    def recorded(inputs: MapInputs, map_id: int) -> MapOutputRecord:
        seen.append(inputs.files)
        return write_map_output(inputs, map_id)

    monkeypatch.setattr(changelog_scan, "BatchSpec", partial(BatchSpec, map_task_bytes=1))
    monkeypatch.setattr(changelog_scan, "write_map_output", recorded)
    changes_of(workshop)
    assert len({id(files) for files in seen}) == len(seen) > 1


def test_untouched_duplicates_of_a_changed_key_do_not_surface(tmp_path: Path) -> None:
    workshop = Workshop.create(tmp_path / "duplicates")
    first = workshop.append([1, 1, 1])
    new = rows([1, 1, 1]).set_column(1, "value", pa.array([1.0, 5.0, 1.0]))
    last = workshop.replace(new)
    changes = changes_of(workshop, after_snapshot_id=first, identifier_columns=["id"])
    expected = difference(workshop.state(first), workshop.state(last))
    assert Counter(changes["_change_type"].to_pylist()) == typed_changes(expected, [0])
    assert changes.num_rows == 2


def test_bounds_have_the_names_of_polars_too(workshop: Workshop) -> None:
    first, *_, third, _ = workshop.snapshot_ids()
    by_ours = changes_of(workshop, after_snapshot_id=first, up_to_snapshot_id=third)
    by_theirs = changes_of(workshop, from_snapshot_id_exclusive=first, to_snapshot_id_inclusive=third)
    assert by_theirs.sort_by("id").equals(by_ours.sort_by("id"))
    said = "up_to_snapshot_id and to_snapshot_id_inclusive are two names of one bound, and both were given: give one"
    with pytest.raises(UsageError, match=said):
        changes_of(workshop, up_to_snapshot_id=third, to_snapshot_id_inclusive=third)
