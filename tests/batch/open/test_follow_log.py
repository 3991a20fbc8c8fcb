"""``follow: log``: each state that readers saw is a step, whatever way the branch took."""

import json
import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.next_batch import find_work
from icefloe.batch.open.pin import pin_pending
from icefloe.batch.run_settings import Credentials
from icefloe.pipeline.model import Pipeline
from support.pipelines.flights import Flights, run_pipeline
from support.pipelines.workspace import icefloe
from support.tables.compactions import compact
from support.tables.published_states import ROWS, PublishedStates, Rows


@pytest.fixture
def flights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flights:
    return Flights.entered(tmp_path, monkeypatch)


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


def run_all() -> None:
    while True:
        done = icefloe("run", "words", "--json")
        assert done.code == 0, done.err
        if done.document["batch"] is None:
            return


def session(flights: Flights) -> PipelineSession:
    pipeline = Pipeline.load(flights.lake.pipelines / "words.yaml")
    return PipelineSession.open(pipeline, credentials=Credentials(), environ=os.environ)


def append(states: PublishedStates, *ids: int, branch: str = "main") -> int:
    rows = [{"id": each, "word": "n", "number": 0} for each in ids]
    states.table.append(pa.Table.from_pylist(rows, ROWS), branch=branch)
    return states.table.refs()[branch].snapshot_id


def roll_back(states: PublishedStates, snapshot_id: int) -> None:
    states.table.manage_snapshots().set_current_snapshot(snapshot_id).commit()


def require_delivered(flights: Flights, states: PublishedStates, branch: str = "main") -> None:
    rows: Rows = {}
    for _, step in sorted(changes(flights).items()):
        apply(rows, step)
    states.table.refresh()
    assert rows == states.rows(states.table.refs()[branch].snapshot_id)
    assert icefloe("verify", "words").code == 0
    assert not find_work(session(flights)).is_due


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
        run_all()
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


@pytest.mark.parametrize("is_delivered", [True, False], ids=["delivered", "not delivered"])
def test_a_state_that_expired_between_two_entries_of_one_snapshot_is_no_gap(
    is_delivered: bool, flights: Flights
) -> None:
    states = made(flights, 0, follow="log")
    run_all()
    [(first, _)] = states.entries()
    taken_back = append(states, 10)
    roll_back(states, first)
    if is_delivered:
        run_all()
    # PyIceberg takes out that entry alone.
    states.table.maintenance.expire_snapshots().by_id(taken_back).commit()
    assert [snapshot_id for snapshot_id, _ in states.entries()] == [first, first]
    run_all()
    require_delivered(flights, states)
    append(states, 11)
    run_all()
    require_delivered(flights, states)


def test_a_cursor_that_is_set_goes_on_after_the_last_entry_of_that_snapshot(flights: Flights) -> None:
    states = made(flights, 0, follow="log")
    run_all()
    [(first, _)] = states.entries()
    append(states, 10)
    roll_back(states, first)
    assert icefloe("set-cursor", "words", "--snapshot-id", first, "--yes").code == 0
    assert not find_work(session(flights)).is_due
    name = states._branch()
    inner = append(states, 11, branch=name)
    roll_back(states, append(states, 12, branch=name))
    refused = icefloe("set-cursor", "words", "--snapshot-id", inner, "--yes")
    assert (refused.code, "is in no entry of the log of branch 'main'" in refused.err) == (65, True), refused.err


def test_states_that_readers_saw_meanwhile_are_pinned(flights: Flights) -> None:
    states = made(flights, 0, follow="log", pin=True)
    run_all()
    [(first, _)] = states.entries()
    name = states._branch()
    seen = [append(states, number, branch=name) for number in (10, 11)]
    roll_back(states, seen[-1])
    roll_back(states, first)
    states.table.manage_snapshots().remove_branch(name).commit()
    pin_pending(session(flights))
    assert {ref.snapshot_id for ref in states.table.refresh().refs().values()} >= {first, *seen}


def test_trace_shows_the_changes_of_a_batch_that_begins_and_ends_at_one_snapshot(flights: Flights) -> None:
    states = made(flights, 0, follow="log")
    run_all()
    [(first, _)] = states.entries()
    append(states, 10)
    roll_back(states, first)

    def traced(name: str) -> list[str]:
        return [each["change_type"] for each in icefloe("trace", "words", "id=10", "--json").document[name]]

    assert traced("pending") == ["INSERT", "DELETE"]
    run_all()
    shutil.rmtree(flights.folder / "words" / "changes" / "batch=1")
    assert (traced("changes"), traced("pending")) == (["INSERT", "DELETE"], [])


def test_a_branch_whose_writers_have_late_clocks_is_followed_by_its_metadata_files(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = made(flights, 0, follow="log", branch="audit")
    states.table.manage_snapshots().create_branch(states.entries()[-1][0], "audit").commit()
    run_all()
    append(states, 10, branch="audit")
    run_all()
    states.unsettle_clocks(monkeypatch)
    for number in range(11, 16):
        append(states, number, branch="audit")
        append(states, 100 + number)
    run_all()
    require_delivered(flights, states, "audit")


def test_states_that_became_current_at_once_may_have_a_compaction_between_them(flights: Flights) -> None:
    states = made(flights, 0, follow="log")
    run_all()
    name = states._branch()
    append(states, 10, branch=name)
    compact(states.table, name)
    states.table.delete("id in (0, 10)", branch=name)
    compact(states.table, name)
    roll_back(states, states.table.refs()[name].snapshot_id)
    run_all()
    require_delivered(flights, states)
