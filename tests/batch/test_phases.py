from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from batch.reduce.changed_keys import flip
from icefloe.batch.phases import MapTaskRun, run_without_engine
from icefloe.errors import TerminalError, TransientError
from icefloe.flow import FlowTask, Phase
from icefloe.iceberg.catalog.file_io import FileGoneError
from support.pipelines.transfers import data_in_the_storage
from support.pipelines.workshop import InOrder, OpenBatch, Workshop


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    """Several map tasks, planned and not begun."""
    workshop.in_tasks(3).delete(range(40, 55))
    return workshop.open()


def damage(batch: OpenBatch, name: str, change: Callable[[bytes], bytes], map_id: int = 0) -> None:
    """Changes a file of a map output behind the store's back."""
    [record] = batch.batch_folder.map_outputs.records([map_id])
    key = f"{map_id}.{record.generation}" if name == "record" else getattr(record, name).key
    file = batch.folder / key
    file.write_bytes(change(file.read_bytes()))


def generations(batch: OpenBatch) -> list[int]:
    records = batch.batch_folder.map_outputs.records(range(batch.plan.num_map_tasks))
    return [record.generation for record in records]


def require_right(workshop: Workshop, batch: OpenBatch) -> None:
    batch.commit()
    workshop.require_exact(batch.plan, workshop.changes(batch.plan.batch_number))


def test_a_phase_hands_out_the_largest_tasks_first(batch: OpenBatch) -> None:
    engine = InOrder()
    batch.run(Phase.SHUFFLE_WRITE, engine)
    [given] = engine.given
    sizes = [batch.plan.map_task_bytes[map_id] for map_id in given]
    assert sorted(given) == list(range(batch.plan.num_map_tasks))
    assert sizes == sorted(sizes, reverse=True)


def test_a_rerun_of_a_phase_redoes_only_what_is_missing(workshop: Workshop, batch: OpenBatch) -> None:
    batch.run(Phase.SHUFFLE_WRITE)
    batch.store.delete(["1.0"])
    engine = InOrder()
    batch.run(Phase.SHUFFLE_WRITE, engine)
    assert engine.given == [[1]]
    batch.coalesce()
    batch.run(Phase.SHUFFLE_READ)
    batch.store.delete(["results/00001.json"])
    engine = InOrder()
    batch.run(Phase.SHUFFLE_READ, engine)
    assert engine.given == [[1]]
    require_right(workshop, batch)


@pytest.mark.slow
@data_in_the_storage
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("data", flip),
        ("data", lambda data: data[: len(data) // 2]),
        ("index", lambda _: b""),
        ("record", flip),
        ("record", lambda data: data[: len(data) // 2]),
    ],
)
def test_outputs_damaged_before_coalesce_or_reading_are_made_again(
    workshop: Workshop, batch: OpenBatch, name: str, change: Callable[[bytes], bytes]
) -> None:
    batch.run(Phase.SHUFFLE_WRITE)
    damage(batch, name, change)
    if name == "record":
        batch.run(Phase.SHUFFLE_WRITE)
    batch.coalesce()
    damage(batch, name, change, map_id=1)
    batch.run(Phase.SHUFFLE_READ)
    # After coalesce nobody needs the index file: the extents say what they said.
    is_needed = name in ("data", "record")
    assert generations(batch)[:2] == [1, int(is_needed)]
    assert set(generations(batch)[2:]) == {0}
    require_right(workshop, batch)


@data_in_the_storage
def test_a_damaged_block_is_found_while_reading_and_only_its_ranges_are_read_again(
    workshop: Workshop, batch: OpenBatch
) -> None:
    batch.run(Phase.SHUFFLE_WRITE)
    batch.coalesce()
    damage(batch, "data", flip, map_id=1)
    engine = InOrder()
    batch.run(Phase.SHUFFLE_READ, engine)
    ranges, redone_map, redone_ranges = engine.given
    assert redone_map == [1]
    assert len(redone_ranges) == 1
    assert set(redone_ranges) < set(ranges)
    assert generations(batch)[1] == 1
    require_right(workshop, batch)


class Vandal(InOrder):
    """Damages the data file of map task 1 whenever it was written."""

    def __init__(self, batch: OpenBatch) -> None:
        super().__init__()
        self.batch = batch

    def map(self, function, numbers):
        outcomes = super().map(function, numbers)
        if numbers == [1]:
            damage(self.batch, "data", flip, map_id=1)
        return outcomes


@data_in_the_storage
def test_a_store_that_never_keeps_what_is_written_is_blamed_after_a_few_rounds(batch: OpenBatch) -> None:
    batch.run(Phase.SHUFFLE_WRITE)
    batch.coalesce()
    damage(batch, "data", flip, map_id=1)
    with pytest.raises(TerminalError, match="found damaged 4 times in a row: the store file://"):
        batch.run(Phase.SHUFFLE_READ, Vandal(batch))


def test_reading_before_coalesce_says_what_to_run(batch: OpenBatch) -> None:
    batch.run(Phase.SHUFFLE_WRITE)
    with pytest.raises(TerminalError, match=r"ranges\.json is missing: run coalesce first"):
        batch.run(Phase.SHUFFLE_READ)


def test_a_phase_of_a_committed_batch_stops(batch: OpenBatch) -> None:
    batch.run_route().commit()
    for phase in Phase:
        with pytest.raises(TerminalError, match="batch 1 of events is committed already: another run"):
            batch.run(phase)
    with pytest.raises(TerminalError, match="committed already"):
        batch.coalesce()


def test_a_table_file_that_is_gone_fails_the_phase_and_keeps_what_the_others_did(batch: OpenBatch) -> None:
    [gone, *_] = batch.batch_folder.map_task(2).files
    path = Path(gone.data_file.path.removeprefix("file://"))
    kept = path.read_bytes()
    path.unlink()
    way_out = rf"{path.name} .* is gone: .*; batch 1 is open and needs that file: `icefloe abandon events` gives"
    with pytest.raises(FileGoneError, match=way_out):
        batch.run(Phase.SHUFFLE_WRITE)
    path.write_bytes(kept)
    engine = InOrder()
    batch.run(Phase.SHUFFLE_WRITE, engine)
    assert engine.given == [[2]]


@pytest.mark.parametrize("cause", [MemoryError(), pa.ArrowMemoryError("malloc of size 64000064 failed")])
def test_a_task_without_memory_says_what_it_may_need(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, cause: MemoryError
) -> None:
    def take_memory(*_: Any, **__: Any) -> None:
        raise cause

    workshop.set(shuffle={"memory_bytes": "64MiB"}).append([1])
    monkeypatch.setattr("icefloe.batch.phases.write_part", take_memory)
    batch = workshop.open()
    phase = Phase.INSERT_ONLY
    reference = batch.reference.for_tasks(batch.plan)
    outcome = MapTaskRun(phase=phase, reference=reference, files=batch.files)(0)
    assert isinstance(outcome.error, TransientError)
    said = f"task 0 of {phase} has no memory left ({str(cause) or 'MemoryError'}): it may need "
    assert outcome.error.sentence.startswith(f"{said}shuffle.memory_bytes (64.0 MiB)")
    assert "spark.executor.memoryOverhead" in outcome.error.sentence
    assert outcome.error.__cause__ is cause


def test_the_figure_of_a_check_that_did_not_end_is_no_number_of_rows(workshop: Workshop) -> None:
    workshop.append([1, 2])
    queries = {"every": "FROM changes", "none": "FROM changes LIMIT 0", "broken": "SELECT word::INTEGER FROM changes"}
    checks = [{"name": name, "query": query, "on_failure": "warn"} for name, query in queries.items()]
    batch = workshop.set(checks=checks).open().run_route()
    assert run_without_engine(FlowTask.CHECK, batch.reference) == {"every": 2, "none": 0, "broken": None}
