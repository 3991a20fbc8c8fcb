"""Pipelines whose changes arrive in tables, by the command line."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.types import LongType

from icefloe.sinks.iceberg.target import TOKEN
from support.pipelines.flights import Flights
from support.pipelines.workspace import icefloe

CHANGELOG = {"type": "iceberg", "table": "changes.{table}", "mode": "changelog"}


@pytest.fixture
def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flights:
    flights = Flights.entered(tmp_path, monkeypatch)
    flights.lake.table.catalog.create_namespace("changes")
    flights.write_pipeline("flights", sink=CHANGELOG)
    flights.lake.append((1, "AA"), (2, "UA"))
    run("flights")
    return flights


def run(name: str) -> dict[str, Any]:
    done = icefloe("run", name, "--json")
    assert done.code == 0, done.err
    return done.document


def changelog(flights: Flights) -> Table:
    return flights.lake.table.catalog.load_table("changes.flights")


def changes(flights: Flights) -> list[tuple[Any, ...]]:
    names = ("_batch", "_change_type", "flight_id", "carrier")
    rows = changelog(flights).scan().to_arrow().to_pylist()
    return sorted(tuple(row[name] for name in names) for row in rows)


def test_changes_arrive_and_are_verified(followed: Flights) -> None:
    followed.lake.replace_carrier(1, "B6")
    run("flights")
    assert changes(followed) == [
        (0, "INSERT", 1, "AA"), (0, "INSERT", 2, "UA"), (1, "UPDATE_AFTER", 1, "B6"), (1, "UPDATE_BEFORE", 1, "AA"),
    ]  # fmt: skip
    verified = icefloe("verify", "flights")
    assert (verified.code, "holds exactly the 2 rows of nyc.flights" in verified.out) == (0, True), verified.err
    traced = icefloe("trace", "flights", "flight_id=1")
    assert traced.code == 0, traced.err
    assert "UPDATE_AFTER" in traced.out


@pytest.mark.parametrize("mode", ["changelog", "mirror", "history"])
@pytest.mark.parametrize("name", ["{namespace}.{table}", "changes.again"])
def test_a_table_is_never_its_own_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, name: str) -> None:
    flights = Flights.entered(tmp_path, monkeypatch)
    flights.lake.append((1, "AA"), (2, "UA"))
    flights.lake.table.delete("true")
    catalog = flights.lake.table.catalog
    catalog.create_namespace("changes")
    catalog.register_table("changes.again", flights.lake.table.metadata_location)
    flights.write_pipeline("flights", sink={"type": "iceberg", "table": name, "mode": mode})
    for command in ("validate", "run"):
        done = icefloe(command, "flights")
        assert (done.code, "is the table that pipeline flights reads" in done.out + done.err) == (65, True), done
    for each in ("nyc.flights", "changes.again"):
        assert TOKEN not in catalog.load_table(each).properties


def test_the_changes_of_a_batch_are_sorted_in_its_file(followed: Flights) -> None:
    followed.write_pipeline("sorted", sink={**CHANGELOG, "table": "changes.sorted", "order_by": ["carrier"]})
    followed.lake.append((3, "ZZ"), (4, "AA"), (5, "MM"))
    followed.lake.append((6, "BB"), (7, "A"))
    run("sorted")
    table = followed.lake.table.catalog.load_table("changes.sorted")
    [file] = [each.file.file_path for each in table.scan().plan_files()]
    found = pq.read_table(file.removeprefix("file://"))
    assert found["carrier"].to_pylist() == ["A", "AA", "AA", "BB", "MM", "UA", "ZZ"]
    assert icefloe("verify", "sorted").code == 0


def test_a_change_that_is_gone_from_the_table_is_found(followed: Flights) -> None:
    changelog(followed).delete("flight_id = 2")
    verified = icefloe("verify", "flights")
    assert (verified.code, "flight_id=2" in verified.out + verified.err) == (65, True), verified.out


def test_verify_follows_columns_that_were_renamed_and_widened(followed: Flights) -> None:
    with followed.lake.table.update_schema() as update:
        update.rename_column("carrier", "airline")
    followed.lake.table.append(followed.lake.table.scan(row_filter="flight_id = 1").to_arrow())
    run("flights")
    assert icefloe("verify", "flights").code == 0
    assert "airline" in changelog(followed).schema().column_names


def test_a_reset_keeps_the_changes_before_it(followed: Flights) -> None:
    assert icefloe("reset", "flights", "--yes").code == 0
    document = run("flights")
    assert [row[1:3] for row in changes(followed)] == [("INSERT", 1), ("INSERT", 2)] * 2
    assert changes(followed)[-1][0] == document["batch"] > 0
    assert icefloe("verify", "flights").code == 0


def test_a_table_that_spark_writes_is_refused_before_a_batch_begins_here(followed: Flights) -> None:
    metadata = Path(changelog(followed).metadata_location.removeprefix("file://"))
    metadata.write_text(metadata.read_text().replace('"format-version":2', '"format-version":3,"next-row-id":0'))
    followed.lake.append((3, "DL"))
    for command in ("validate", "run"):
        done = icefloe(command, "flights")
        said = done.out + done.err
        assert (done.code, "changes.flights, and no phase runs there with engine: local" in said) == (65, True), said


def test_batches_are_delivered_once_more_into_another_table(followed: Flights) -> None:
    followed.write_pipeline("flights", sink=CHANGELOG, changelog={"keep": "7d"})
    followed.lake.replace_carrier(2, "DL")
    run("flights")
    other = followed.folder / "other.yaml"
    other.write_text("sink: {type: iceberg, catalog: lakehouse, table: changes.again, mode: changelog}\n")
    for _ in range(2):
        assert icefloe("deliver", "flights", "--sink", str(other), "--batches", "1-1").code == 0
    assert followed.lake.table.catalog.load_table("changes.again").scan().to_arrow().num_rows == 2


@pytest.mark.parametrize("mode", ["changelog", "mirror"])
def test_batches_that_are_delivered_once_more_know_their_columns(followed: Flights, mode: str) -> None:
    followed.write_pipeline("flights", sink=CHANGELOG, changelog={"keep": "7d"})
    with followed.lake.table.update_schema() as update:
        update.rename_column("carrier", "airline")
    with followed.lake.table.update_schema() as update:
        update.add_column("carrier", LongType())
    rows = [{"flight_id": 3, "airline": "DL", "carrier": 7}]
    followed.lake.table.append(pa.Table.from_pylist(rows, followed.lake.table.schema().as_arrow()))
    run("flights")
    other = followed.folder / "other.yaml"
    other.write_text(f"sink: {{type: iceberg, catalog: lakehouse, table: changes.again, mode: {mode}}}\n")
    done = icefloe("deliver", "flights", "--sink", str(other), "--batches", "0-1")
    assert done.code == 0, done.err
    table = followed.lake.table.catalog.load_table("changes.again")
    assert table.schema().column_names[-3:] == ["flight_id", "airline", "carrier"]
    found = table.scan().to_arrow().to_pylist()
    assert {(row["flight_id"], row["airline"], row["carrier"]) for row in found} == {
        (1, "AA", None), (2, "UA", None), (3, "DL", 7)
    }  # fmt: skip


def test_another_table_is_refused_by_name_of_the_key(followed: Flights) -> None:
    followed.write_pipeline("flights", sink={**CHANGELOG, "table": "changes.elsewhere"})
    followed.lake.append((3, "DL"))
    refused = icefloe("run", "flights")
    assert (refused.code, "sink.table" in refused.err) == (65, True), refused.err


def test_another_catalog_is_refused_because_its_table_has_no_batch(followed: Flights) -> None:
    other = {"name": "other", "type": "sql", "uri": f"sqlite:///{followed.folder}/other.db"}
    other["warehouse"] = f"file://{followed.folder}/other"
    Path(followed.folder, "other").mkdir()
    SqlCatalog(**other).create_namespace("changes")
    followed.write_pipeline("flights", sink={**CHANGELOG, "catalog": other})
    followed.lake.append((3, "DL"))
    refused = icefloe("run", "flights")
    print(refused.err)
    assert (refused.code, "changes.flights" in refused.err) == (65, True), refused.err
    assert [row[:2] for row in changes(followed)] == [(0, "INSERT"), (0, "INSERT")]


MIRROR = {"type": "iceberg", "table": "changes.mirror", "mode": "mirror"}


@pytest.fixture
def mirrored(followed: Flights) -> Flights:
    followed.write_pipeline("mirror", sink=MIRROR)
    run("mirror")
    return followed


def rows(flights: Flights) -> list[tuple[Any, ...]]:
    found = flights.lake.table.catalog.load_table("changes.mirror").scan().to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def test_a_mirror_is_equal_to_the_table_and_is_verified(mirrored: Flights) -> None:
    mirrored.lake.replace_carrier(1, "B6")
    mirrored.lake.table.delete("flight_id = 2")
    mirrored.lake.append((3, "DL"))
    run("mirror")
    assert rows(mirrored) == [(1, "B6"), (3, "DL")]
    verified = icefloe("verify", "mirror")
    assert (verified.code, "holds exactly the 2 rows of nyc.flights" in verified.out) == (0, True), verified.err
    traced = icefloe("trace", "mirror", "flight_id=1")
    assert (traced.code, "B6" in traced.out) == (0, True), traced.err


def test_a_mirror_that_drifted_is_found_by_verify_and_by_the_next_change(mirrored: Flights) -> None:
    mirrored.lake.table.catalog.load_table("changes.mirror").overwrite(
        mirrored.lake.table.scan(row_filter="flight_id = 1").to_arrow()
    )
    assert icefloe("verify", "mirror").code == 65
    mirrored.lake.table.delete("flight_id = 2")
    refused = icefloe("run", "mirror")
    assert (refused.code, "has drifted from table nyc.flights" in refused.err) == (65, True), refused.err
    assert icefloe("reset", "mirror", "--yes").code == 0
    run("mirror")
    assert rows(mirrored) == [(1, "AA")]
    assert icefloe("verify", "mirror").code == 0


def test_a_mirror_follows_a_rollback_and_columns(mirrored: Flights) -> None:
    table = mirrored.lake.table
    before = table.refresh().metadata.current_snapshot_id
    assert before is not None
    mirrored.lake.replace_carrier(1, "B6")
    run("mirror")
    table.manage_snapshots().rollback_to_snapshot(before).commit()
    run("mirror")
    assert rows(mirrored) == [(1, "AA"), (2, "UA")]
    with table.update_schema() as update:
        update.rename_column("carrier", "Carrier")
    table.delete("flight_id = 2")
    run("mirror")
    assert rows(mirrored) == [(1, "AA")]
    assert icefloe("verify", "mirror").code == 0
    assert table.catalog.load_table("changes.mirror").schema().column_names == ["flight_id", "Carrier"]


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [("initial_load", "from_now", "initial_load must be full or from_earliest"),
     ("changes", "upsert", "changes must be each or net"), ("changes", "append_only", "changes must be each or net")],
)  # fmt: skip
def test_a_mirror_that_cannot_be_equal_is_refused(followed: Flights, key: str, value: str, sentence: str) -> None:
    followed.write_pipeline("mirror", {key: value}, sink=MIRROR)
    refused = icefloe("validate", "mirror")
    assert (refused.code, sentence in refused.out + refused.err) == (65, True), refused.out


def test_a_table_without_a_key_is_mirrored_by_its_whole_rows(followed: Flights) -> None:
    catalog = followed.lake.table.catalog
    columns = pa.schema([("word", pa.string()), ("at", pa.struct([("x", pa.float64())]))])
    table = catalog.create_table("nyc.words", columns)
    rows = [{"word": "a", "at": {"x": 1.0}}, {"word": None, "at": None}, {"word": "b", "at": {"x": float("nan")}}]
    table.append(pa.Table.from_pylist([*rows, *rows, rows[0]], columns))
    sink = {"type": "iceberg", "table": "changes.words", "mode": "mirror", "identity": "rows"}
    followed.write_pipeline("words", table="nyc.words", sink=sink)
    run("words")

    def held() -> list[str]:
        return sorted(map(str, catalog.load_table("changes.words").scan().to_arrow().to_pylist()))

    left = [rows[0], *rows[1:], rows[2], {"word": "new", "at": {"x": 2.0}}]
    table.overwrite(pa.Table.from_pylist(left, columns))
    run("words")
    assert held() == sorted(map(str, left))
    verified = icefloe("verify", "words")
    assert verified.code == 0, verified.out + verified.err
    catalog.load_table("changes.words").delete("word = 'new'")
    assert icefloe("verify", "words").code == 65
    table.delete("word = 'new'")
    refused = icefloe("run", "words")
    assert (refused.code, "has drifted from table nyc.words" in refused.err) == (65, True), refused.err
