"""Histories: at each time that the table's log knows, the versions valid then are the rows that readers saw."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from support.pipelines.flights import Flights
from support.pipelines.workspace import icefloe
from support.tables.published_states import ROWS, PublishedStates, Rows

HISTORY = {"type": "iceberg", "table": "changes.words", "mode": "history"}


@pytest.fixture
def flights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flights:
    flights = Flights.create(tmp_path)
    for name, value in flights.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
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
