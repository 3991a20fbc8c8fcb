"""Histories: at each time that the table's log knows, the versions valid then are the rows that readers saw."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import accumulate
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.verify import verify_versions
from icefloe.batch.verify.table_state import TableState
from icefloe.sinks.iceberg.row_history import HistorySink
from icefloe.testing.staged_history import StagedHistory
from sinks.iceberg.lakes import Lake
from support.pipelines.flights import Flights
from support.pipelines.workspace import icefloe
from support.tables.published_states import ROWS, PublishedStates, Rows

HISTORY = {"type": "iceberg", "table": "changes.words", "mode": "history"}


@pytest.fixture
def flights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flights:
    flights = Flights.entered(tmp_path, monkeypatch)
    flights.lake.table.catalog.create_namespace("changes")
    return flights


def words(flights: Flights, seed: int, **keys: Any) -> PublishedStates:
    table = flights.lake.table.catalog.create_table("nyc.words", ROWS)
    table.append(pa.Table.from_pylist([{"id": key, "word": "a", "number": 0} for key in range(4)], ROWS))
    sink = {**HISTORY, **keys.pop("sink", {})}
    flights.write_pipeline("words", table="nyc.words", identifier_columns=["id"], sink=sink, **keys)
    return PublishedStates(table, Random(seed))


def run_all() -> None:
    while True:
        done = icefloe("run", "words", "--json")
        assert done.code == 0, done.err
        if done.document["batch"] is None:
            return


def versions(flights: Flights) -> list[dict[str, Any]]:
    return flights.lake.table.catalog.load_table("changes.words").scan().to_arrow().to_pylist()


def published(states: PublishedStates, since: int) -> Iterator[tuple[datetime, int]]:
    """The first and the last millisecond of each state, by times that never go back."""
    entries = states.entries()[since:]
    times = [*accumulate((time_ms for _, time_ms in entries), max)]
    for (snapshot_id, _), begin, end in zip(entries, times, [*times[1:], times[-1] + 1], strict=True):
        for time_ms in {begin, end - 1} if end > begin else ():
            yield datetime.fromtimestamp(time_ms / 1000, UTC), snapshot_id


def as_of(found: list[dict[str, Any]], at: datetime) -> Rows:
    rows: Rows = {}
    for each in found:
        if each["valid_from"] <= at and (each["valid_to"] is None or at < each["valid_to"]):
            shown = {name: each[name] for name in ROWS.names}
            assert rows.setdefault(each["id"], shown) is shown
    return rows


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(s, marks=pytest.mark.extended) for s in range(3, 16))])
def test_at_each_entry_of_the_log_the_history_is_the_table(
    seed: int, flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = words(flights, seed, max_steps_per_batch=5, max_bytes_per_batch=2000)
    run_all()
    since = len(states.entries()) - 1
    if seed % 2:
        states.unsettle_clocks(monkeypatch)
    for _ in range(3):
        states.go_on(states.random.randrange(1, 7))
        run_all()
    found = versions(flights)
    for at, snapshot_id in published(states, since):
        assert as_of(found, at) == states.rows(snapshot_id)
    current = {each["id"]: {name: each[name] for name in ROWS.names} for each in found if each["is_current"]}
    assert current == states.rows()
    assert all((each["valid_to"] is None) == each["is_current"] for each in found)
    assert icefloe("verify", "words").code == 0


def intervals(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = (*ROWS.names, "valid_from", "valid_to", "is_current", "_commit_snapshot_id", "_closed_commit_snapshot_id")
    return sorted((tuple(row[name] for name in names) for row in found), key=str)


@pytest.mark.parametrize("seed", [5, *(pytest.param(s, marks=pytest.mark.extended) for s in range(20, 28))])
def test_the_intervals_are_the_same_however_the_states_are_cut_into_batches(seed: int, flights: Flights) -> None:
    states = words(flights, seed, max_steps_per_batch=2)
    sink = {**HISTORY, "table": "changes.at_once"}
    flights.write_pipeline("at_once", table="nyc.words", identifier_columns=["id"], sink=sink)
    run_all()
    assert icefloe("run", "at_once").code == 0
    for _ in range(4):
        states.go_on(3)
        run_all()
    assert icefloe("run", "at_once").code == 0
    at_once = flights.lake.table.catalog.load_table("changes.at_once").scan().to_arrow().to_pylist()
    assert intervals(at_once) == intervals(versions(flights))
    assert len({row["_batch"] for row in at_once}) <= 2 < len({row["_batch"] for row in versions(flights)})


@pytest.mark.parametrize("max_bytes", [1, 2**40], ids=["in parts", "whole"])
def test_a_reload_keeps_the_versions_of_rows_that_are_the_same(flights: Flights, max_bytes: int) -> None:
    states = words(flights, 0, max_bytes_per_batch=max_bytes)
    states.table.append(pa.Table.from_pylist([{"id": 7, "word": "z", "number": 7}], ROWS))
    run_all()
    [first] = {row["valid_from"] for row in versions(flights)}
    states.table.delete("id in (1, 2)")
    states.table.append(pa.Table.from_pylist([{"id": 2, "word": "new", "number": 1}], ROWS))
    assert icefloe("reset", "words", "--yes").code == 0
    run_all()
    entry = states.entries()[-1][1]
    reloaded = datetime.fromtimestamp(entry / 1000, UTC)
    found = sorted((row["id"], row["valid_from"] == first, row["valid_to"], row["word"]) for row in versions(flights))
    assert [row for row in found if row[0] not in (1, 2)] == [
        (0, True, None, "a"), (3, True, None, "a"), (7, True, None, "z"),
    ]  # fmt: skip
    assert sorted((row for row in found if row[0] in (1, 2)), key=str) == [
        (1, True, reloaded, "a"), (2, False, None, "new"), (2, True, reloaded, "a"),
    ]  # fmt: skip
    before = intervals(versions(flights))
    assert icefloe("reset", "words", "--yes").code == 0
    run_all()
    assert intervals(versions(flights)) == before
    assert icefloe("verify", "words").code == 0


@pytest.mark.parametrize("max_bytes", [1, 2**40], ids=["in parts", "whole"])
@pytest.mark.parametrize(
    ("wide", "narrow", "large", "small"),
    [(pa.int64(), pa.int32(), 2**40, 7), (pa.decimal128(12, 2), pa.decimal128(5, 2), Decimal(10**7), Decimal(7))],
    ids=["integer", "decimal"],
)
def test_a_reload_of_a_table_with_narrower_columns_ends_versions_with_larger_values(
    flights: Flights, wide: pa.DataType, narrow: pa.DataType, large: Any, small: Any, max_bytes: int
) -> None:
    """Also with such a number inside of a list of structs."""
    keys: dict[str, Any] = {"identifier_columns": ["id"], "sink": HISTORY, "max_bytes_per_batch": max_bytes}
    flights.write_pipeline("words", table="nyc.words", **keys)
    catalog = flights.lake.table.catalog
    for kind, values in ((wide, (large, small, small)), (narrow, (small, small))):
        inner = pa.list_(pa.struct([("word", pa.string()), ("n", kind)]))
        schema = pa.schema([("id", pa.int64()), ("n", kind), ("at", inner)])
        rows = [{"id": key, "n": n, "at": [{"word": "a", "n": n}]} for key, n in enumerate(values)]
        if catalog.table_exists("nyc.words"):
            catalog.drop_table("nyc.words")
        table = catalog.create_table("nyc.words", schema)
        for row in rows:
            table.append(pa.Table.from_pylist([row], schema))
        assert icefloe("reset", "words", "--yes").code == 0
        run_all()
    found = sorted((row["id"], row["n"], row["at"][0]["n"], row["is_current"]) for row in versions(flights))
    assert found == [
        (0, small, small, True),
        (0, large, large, False),
        (1, small, small, True),
        (2, small, small, False),
    ]
    verified = icefloe("verify", "words")
    assert verified.code == 0, verified.err


@pytest.mark.parametrize("keys", [{"track": ["word"]}, {"except": ["number"]}], ids=str)
def test_a_column_that_is_not_tracked_changes_in_its_version(flights: Flights, keys: dict[str, Any]) -> None:
    states = words(flights, 0, sink=keys)
    run_all()
    before = {row["id"]: row["valid_from"] for row in versions(flights)}
    states.replace({"id": 1, "word": "a", "number": 4})
    run_all()
    for row in ((1, "a", 5), (2, "b", 5), (2, "b", 6)):
        states.replace(dict(zip(ROWS.names, row, strict=True)))
    run_all()
    found = sorted((row["id"], row["word"], row["number"], row["is_current"]) for row in versions(flights))
    assert found == [(0, "a", 0, True), (1, "a", 5, True), (2, "a", 0, False), (2, "b", 6, True), (3, "a", 0, True)]
    assert all(row["valid_from"] == before[row["id"]] for row in versions(flights) if row["word"] == "a")
    assert icefloe("verify", "words").code == 0


def test_a_history_that_drifted_stops_the_next_change_of_that_row(flights: Flights) -> None:
    states = words(flights, 0)
    run_all()
    flights.lake.table.catalog.load_table("changes.words").delete("id = 1")
    assert icefloe("verify", "words").code == 65
    states.table.delete("id = 1")
    refused = icefloe("run", "words")
    assert (refused.code, "has drifted from table nyc.words" in refused.err) == (65, True), refused.err


def test_from_earliest_begins_with_the_oldest_state_and_goes_on_with_no_other_history(flights: Flights) -> None:
    states = words(flights, 3, initial_load="from_earliest")
    states.go_on(8)
    run_all()
    found = versions(flights)
    for at, snapshot_id in published(states, 0):
        assert as_of(found, at) == states.rows(snapshot_id)
    assert icefloe("reset", "words", "--yes").code == 0
    refused = icefloe("run", "words")
    assert (refused.code, "has a history already" in refused.err) == (65, True), refused.err


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"changes": "net"}, "changes must be each"),
        ({"follow": "lineage"}, "follow must be log"),
        ({"initial_load": "from_now"}, "initial_load must be full or from_earliest"),
        ({"commit_groups": "split"}, "commit_groups must be fuse"),
        ({"sink": {"track": ["word"], "except": ["number"]}}, "exclude each other"),
        ({"sink": {"track": ["wort"]}}, "sink.track has wort, which is no column of table nyc.words"),
        ({"sink": {"mode": "mirror", "track": ["word"]}}, "sink.track is for mode: history"),
        ({"columns": ["word"]}, "column id is not in columns"),
    ],
    ids=str,
)
def test_keys_that_make_no_history_are_refused_in_words(flights: Flights, keys: dict[str, Any], sentence: str) -> None:
    words(flights, 0, **keys)
    refused = icefloe("run", "words")
    assert (refused.code, sentence in refused.err) == (65, True), refused.err


def test_verify_compares_every_state_and_names_a_version_that_is_wrong(flights: Flights) -> None:
    states = words(flights, 8)
    run_all()
    states.go_on(6)
    run_all()
    proven = icefloe("verify", "words")
    assert (proven.code, "instants of" in proven.out) == (0, True), proven.out
    table = flights.lake.table.catalog.load_table("changes.words")
    rows = table.scan().to_arrow()
    closed = next(
        row for row in rows.to_pylist() if row["valid_to"] is not None and row["valid_from"] < row["valid_to"]
    )
    wrong = [{**row, "word": "forged"} if row == closed else row for row in rows.to_pylist()]
    table.overwrite(pa.Table.from_pylist(wrong, rows.schema))
    found = icefloe("verify", "words")
    assert (found.code, "was current, the history has" in found.out + found.err) == (65, True), found.out + found.err


def test_verify_knows_the_states_of_a_batch_that_came_meanwhile(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, find = words(flights, 0), HistorySink.kept_versions
    run_all()

    def overtaken(*given: Any) -> Any:
        append(states, 10)
        run_all()
        return find(*given)

    monkeypatch.setattr(HistorySink, "kept_versions", overtaken)
    proven = icefloe("verify", "words")
    assert (proven.code, "of 2 states" in proven.out) == (0, True), proven.out


def test_verify_holds_the_manifests_of_one_state_at_a_time(flights: Flights, monkeypatch: pytest.MonkeyPatch) -> None:
    states, find, held = words(flights, 0), TableState.at, list[int]()
    run_all()
    for each in (10, 11, 12):
        append(states, each)
    run_all()

    def found(session: PipelineSession, *given: Any) -> TableState:
        held.append(session.table.manifests.manifests_read)
        return find(session, *given)

    monkeypatch.setattr(verify_versions, "TableState", SimpleNamespace(at=found))
    assert icefloe("verify", "words").code == 0
    assert held == [0] * 4


def append(states: PublishedStates, *ids: int, branch: str = "main") -> int:
    rows = [{"id": each, "word": "n", "number": 0} for each in ids]
    states.table.append(pa.Table.from_pylist(rows, ROWS), branch=branch)
    return states.table.refs()[branch].snapshot_id


def roll_back(states: PublishedStates, snapshot_id: int) -> None:
    states.table.manage_snapshots().set_current_snapshot(snapshot_id).commit()


def expire(states: PublishedStates, snapshot_id: int) -> None:
    """PyIceberg takes out the entries of that snapshot alone, as if the one before it had stayed current."""
    states.table.maintenance.expire_snapshots().by_id(snapshot_id).commit()


@pytest.mark.parametrize(("within_expired", "compared"), [(False, 2), (True, 3)])
def test_verify_compares_no_time_whose_entry_has_expired(
    within_expired: bool, compared: int, flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = words(flights, 0)
    run_all()
    [(first, _)] = states.entries()
    expired = append(states, 10)
    [_, (_, expired_ms)] = states.entries()
    roll_back(states, first)
    append(states, 11)
    run_all()
    expire(states, expired)
    # An instant at which the expired state was current is not what the log tells; the batches' records do.
    chosen_ms = expired_ms if within_expired else 0
    random = SimpleNamespace(randrange=lambda begin, end: min(max(begin, chosen_ms), end - 1))
    monkeypatch.setattr(verify_versions, "Random", lambda: random)
    proven = icefloe("verify", "words")
    assert (proven.code, f"of {compared} states" in proven.out) == (0, True), proven.out + proven.err
    table = flights.lake.table.catalog.load_table("changes.words")
    table.delete("id = 11")
    assert icefloe("verify", "words").code == 65


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.extended) for s in range(2, 24))])
def test_verify_proves_what_expiry_left_of_a_log(seed: int, flights: Flights, monkeypatch: pytest.MonkeyPatch) -> None:
    states = words(flights, seed, on_gap="reload", max_steps_per_batch=3)
    run_all()
    if seed % 2:
        states.unsettle_clocks(monkeypatch)
    for _ in range(5):
        states.go_on(states.random.randrange(1, 5))
        if states.random.random() < 0.5:
            run_all()
        states.expire(states.random.randrange(3))
        run_all()
        proven = icefloe("verify", "words")
        assert proven.code == 0, proven.err


def test_verify_begins_after_a_load_whose_entry_has_expired(flights: Flights) -> None:
    states = words(flights, 0)
    [(first, _)] = states.entries()
    loaded = append(states, 10)
    run_all()
    roll_back(states, first)
    run_all()
    expire(states, loaded)
    append(states, 12)
    run_all()
    proven = icefloe("verify", "words")
    assert (proven.code, "of 2 states" in proven.out) == (0, True), proven.err


def test_verify_reads_the_states_of_another_branch_from_metadata_files(flights: Flights) -> None:
    states = words(flights, 0, branch="audit")
    states.table.manage_snapshots().create_branch(states.entries()[-1][0], "audit").commit()
    run_all()
    for number in (10, 11):
        append(states, number, branch="audit")
        append(states, 100 + number)
    run_all()
    proven = icefloe("verify", "words")
    assert (proven.code, "of 3 states" in proven.out) == (0, True), proven.out + proven.err


@pytest.mark.parametrize("max_bytes", [1, 2**40], ids=["in parts", "whole"])
def test_a_history_that_begins_in_a_mirror_replaces_its_rows(flights: Flights, max_bytes: int) -> None:
    states = words(flights, 0, sink={"mode": "mirror"})
    run_all()
    append(states, 10)
    for mode in ("history", "mirror", "history"):
        sink = {**HISTORY, "mode": mode}
        keys: dict[str, Any] = {"identifier_columns": ["id"], "sink": sink, "max_bytes_per_batch": max_bytes}
        flights.write_pipeline("words", table="nyc.words", **keys)
        assert icefloe("reset", "words", "--yes").code == 0
        run_all()
        assert icefloe("verify", "words").code == 0
        assert len(versions(flights)) == 5
    assert all(row["is_current"] for row in versions(flights))


def test_columns_may_change_in_the_middle_of_a_batch(flights: Flights) -> None:
    states = words(flights, 0)
    run_all()
    states.replace({"id": 1, "word": "b", "number": 0})
    with states.table.update_schema() as update:
        update.rename_column("word", "Word")
        update.add_column("more", LongType())
    states.table.delete("id = 2")
    run_all()
    found = sorted((row["id"], row["Word"], row["is_current"]) for row in versions(flights))
    assert found == [(0, "a", True), (1, "a", False), (1, "b", True), (2, "a", False), (3, "a", True)]
    assert icefloe("verify", "words").code == 0


def test_a_row_that_comes_changes_goes_and_comes_back_in_one_batch(tmp_path: Path) -> None:
    lake, a, b = Lake.create(tmp_path, mode="history"), {"word": "a"}, {"word": "b"}
    history = StagedHistory(clock=iter([1000, 5000, 5000, 4000, 9000]))
    lake.deliver(*history.load({0: a}), history.change({1: a}, {1: b}, {0: None, 1: None}, {0: a, 1: a}))
    rows = lake.table.scan().to_arrow().to_pylist()
    found = sorted((row["id"], row["valid_from"].timestamp(), row["word"], row["is_current"]) for row in rows)
    # Two versions of no length: both states came and went at one time.
    assert found == [
        (0, 1, "a", False), (0, 9, "a", True), (1, 5, "a", False), (1, 5, "b", False), (1, 9, "a", True)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
def test_a_mirror_is_the_table_whatever_became_current(
    seed: int, flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = words(flights, seed, sink={"mode": "mirror"})
    run_all()
    states.unsettle_clocks(monkeypatch)
    for _ in range(3):
        states.go_on(4)
        run_all()
        assert sorted(versions(flights), key=lambda row: row["id"]) == [row for _, row in sorted(states.rows().items())]
