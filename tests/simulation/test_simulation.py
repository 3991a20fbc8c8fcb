"""No schedule of a seed breaks a promise, and schedules break them as soon as a guard is taken away."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from icefloe.batch.staged_changes import RangeResult
from icefloe.checkpoint.record_store import RecordStore
from icefloe.documents import dump_document
from icefloe.storage.store import Store
from simulation.promises import BrokenPromiseError
from simulation.simulation import Trial, simulate
from simulation.soak import failures, story
from simulation.world import World
from support.tiers import extended

ROOT = Path(__file__).parents[2]
AT_ONCE = 100
IN_TEST, IN_EXTENDED = 200, 800
LARGE = {"/tasks/": b'"row_groups"', ".moves": b""}


@pytest.mark.parametrize(
    "first",
    [
        *(pytest.param(first, marks=pytest.mark.slow) for first in range(0, IN_TEST, AT_ONCE)),
        *map(extended, range(IN_TEST, IN_TEST + IN_EXTENDED, AT_ONCE)),
    ],
)
def test_no_schedule_breaks_a_promise(first: int) -> None:
    for trial in failures(range(first, first + AT_ONCE)):
        pytest.fail(story(trial), pytrace=False)


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/developers/reliability.md"])
def test_the_pages_say_how_many_schedules_are_run(page: str) -> None:
    said = f"`make test` runs {IN_TEST} schedules, `make extended` {IN_EXTENDED:,} others"
    assert said in (ROOT / page).read_text()


def test_a_sink_that_was_taken_over_twice_by_order_breaks_no_promise() -> None:
    """A namesake delivers first, then a rival takes its index over: the one of 29,000 schedules that was misjudged."""
    trial = simulate(26_025_597)
    assert trial.error is None
    owners = [line.split()[0] for line in trial.log if " replace index/meta " in line]
    assert sorted(set(owners), key=owners.index)[:2] == ["namesake", "rival"]


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(33_020_404, id="the cursor is set before a load, and the index has rows of another pipeline"),
        pytest.param(33_039_438, id="the table is led again to a state whose way has expired"),
        pytest.param(33_053_708, id="the table is rolled back and led on between two looks"),
        pytest.param(34_017_784, id="a row that an index never got is deleted by a rollback and comes back"),
        pytest.param(34_006_761, id="pins hold the way from a rollback behind the nearest ancestor"),
        pytest.param(34_040_094, id="the files of a batch expire before its record"),
        pytest.param(35_015_316, id="a part is lost after its range was read"),
        pytest.param(503_957, id="all of a batch arrives while a reset gives it up"),
    ],
)
def test_a_schedule_that_was_once_misjudged_breaks_no_promise(seed: int) -> None:
    assert simulate(seed).error is None


@pytest.mark.slow
def test_a_seed_gives_the_same_schedule_in_every_process() -> None:
    digests = [simulate(seed).digest for seed in range(5)]
    program = "from simulation.simulation import simulate; print([simulate(seed).digest for seed in range(5)])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["plugins", "tests"]), "PYTHONHASHSEED": "7"}
    answer = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, check=True)
    assert answer.stdout.decode().strip() == str(digests)
    assert len(set(digests)) == len(digests)


@pytest.mark.slow
def test_work_that_is_kept_gives_the_same_schedules_and_the_same_files(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [simulate(seed) for seed in range(20)]
    monkeypatch.setattr("simulation.simulation.with_kept_work", nullcontext)
    for trial in kept:
        done = simulate(trial.seed)
        assert done.log == trial.log
        assert delivered_files(done) == delivered_files(trial) != {}


def delivered_files(trial: Trial) -> dict[str, bytes]:
    return {key: data for key, data in trial.world.objects.items() if key.endswith((".parquet", ".data", ".index"))}


@pytest.mark.slow
def test_schedules_have_what_only_batches_of_large_tables_have(monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    write = World.write

    def look(world: World, key: str, data: bytes | None, *, by: str) -> None:
        for place, content in LARGE.items():
            if place in key and content in (data or b""):
                found.add(place)
        write(world, key, data, by=by)

    monkeypatch.setattr(World, "write", look)
    assert list(failures(range(20))) == []
    assert found == LARGE.keys()


def test_the_decisions_of_a_seed_give_its_schedule_again_and_none_of_them_another() -> None:
    trial = simulate(1)
    assert trial.decisions
    assert simulate(1, trial.decisions).log == trial.log
    assert simulate(1, {}).log != trial.log


# These create nothing: they replace what another attempt recorded.
def put_result(result: RangeResult, store: Store) -> RangeResult:
    store.put(f"results/{result.range_id:05d}.json", dump_document(result))
    return result


def test_a_failure_comes_with_the_fewest_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icefloe.batch.context.running_batch.FencedStore.take_back", lambda _: None)
    trial = next(failures(range(200)))
    text = story(trial)
    assert f"make schedules REPLAY={trial.seed}" in text
    [kept] = re.findall(r"(\d+) of \d+ decisions are left", text)
    # Somebody has to stop the run that comes too late, and no schedule needs all that its seed decided.
    assert 1 <= int(kept) < len(trial.decisions)
    assert "goes on" in text


def put_record(records: RecordStore, record: Any, key: str) -> Any:
    records.store.put(key, dump_document(record))
    return record


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guard", "none", "sentence"),
    [
        ("icefloe.batch.context.running_batch.FencedStore.take_back", lambda _: None, "left of a batch that is over"),
        ("icefloe.batch.staged_changes.RangeResult.create", put_result, "changed .*results/.* of an open batch"),
        ("icefloe.sinks.change_files.file_damage", lambda *_: None, "gone or cut"),
        (
            "icefloe.batch.deliver.commit_batch._is_up_to",
            lambda _, key: key[0].isdecimal(),
            "deleted .* of an open batch",
        ),
        ("icefloe.checkpoint.record_store.RecordStore.create", put_record, "changed the record"),
    ],
    ids=["zombie", "result", "damage", "cleanup", "record"],
)
def test_a_guard_that_is_taken_away_is_missed(
    guard: str, none: Callable[..., Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, none)
    trial = next(failures(range(200)), None)
    assert trial is not None
    with pytest.raises(BrokenPromiseError, match=sentence):
        raise trial.error or AssertionError
