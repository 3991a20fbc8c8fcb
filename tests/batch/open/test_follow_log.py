"""``follow: log``: each state that readers saw is a step, whatever way the branch took."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.pipelines.flights import Flights, run_pipeline
from support.pipelines.workspace import icefloe
from support.tables.published_states import ROWS, PublishedStates, Rows


@pytest.fixture
def flights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flights:
    flights = Flights.create(tmp_path)
    for name, value in flights.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return flights


def made(flights: Flights, seed: int, **keys: Any) -> PublishedStates:
    table = flights.lake.table.catalog.create_table("nyc.words", ROWS)
    states = PublishedStates(table, Random(seed))
    table.append(pa.Table.from_pylist([{"id": key, "word": "a", "number": 0} for key in range(4)], ROWS))
    flights.write_pipeline("words", table="nyc.words", identifier_columns=["id"], **keys)
    return states


def steps(flights: Flights) -> list[tuple[int, dict[str, Any]]]:
    """The steps of all batches, with the number of their batch."""
    folder = flights.folder / "words" / "storage" / "checkpoints" / "words" / "offsets"
    found = [json.loads(path.read_text()) for path in folder.iterdir()]
    found.sort(key=lambda offset: offset["ending"]["cursor"]["batch_number"])
    return [(number, step) for number, offset in enumerate(found) for step in offset["spec"]["steps"]]


def changes(flights: Flights) -> dict[tuple[int, int], list[dict[str, Any]]]:
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for path in sorted((flights.folder / "words" / "changes").rglob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            found.setdefault((row["_batch"], row["_change_ordinal"]), []).append(row)
    return found


def apply(rows: Rows, step: list[dict[str, Any]]) -> None:
    for row in sorted(step, key=lambda each: each["_change_type"] in ("INSERT", "UPDATE_AFTER")):
        shown = {name: row[name] for name in ROWS.names}
        if row["_change_type"] in ("INSERT", "UPDATE_AFTER"):
            assert rows.setdefault(row["id"], shown) is shown
        else:
            assert rows.pop(row["id"]) == shown


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(s, marks=pytest.mark.extended) for s in range(4, 16))])
def test_each_entry_of_the_log_is_a_step_that_ends_at_its_state(
    seed: int, flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = made(flights, seed, follow="log", max_steps_per_batch=5)
    run_pipeline("words")
    loaded = len(states.entries()) - 1
    if seed % 2:
        states.unsettle_clocks(monkeypatch)
    for _ in range(3):
        states.go_on(states.random.randrange(1, 7))
        while icefloe("run", "words", "--json").document["batch"] is not None:
            pass
    entries = states.entries()[loaded:]
    seen = [each for number, each in enumerate(entries) if not number or each[0] != entries[number - 1][0]]
    found = steps(flights)
    assert [step["made_current_at_ms"] for _, step in found] == [time_ms for _, time_ms in seen]
    rows: Rows = {}
    changed = changes(flights)
    for (number, step), (snapshot_id, _) in zip(found, seen, strict=True):
        apply(rows, changed.get((number, step["change_ordinal"]), []))
        assert rows == states.rows(snapshot_id)
    assert icefloe("verify", "words").code == 0
