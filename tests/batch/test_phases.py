from collections.abc import Callable
from contextlib import suppress
from inspect import currentframe
from pathlib import Path
from traceback import walk_stack

import pytest

from icefloe.batch.context.running_batch import BatchCommittedError
from icefloe.batch.deliver.prove import UnfinishedTasksError
from icefloe.batch.phase_record import TaskOutcome
from icefloe.engines.local import LocalEngine
from icefloe.errors import TerminalError, TransientError
from icefloe.flow import Phase, Route
from icefloe.iceberg.catalog.file_io import FileGoneError
from icefloe.node.messages import is_node_key
from icefloe.shuffle.map_output_log import MissingMapOutputError
from support.pipelines.transfers import data_in_the_storage
from support.pipelines.workshop import InOrder, OpenBatch, Workshop

SMALL = {"map_task_bytes": 1, "partitions": 4, "target_size_bytes": 1}


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    """Several map tasks, planned and not begun."""
    for start in (0, 50, 100):
        workshop.append(range(start, start + 50))
    workshop.deliver()
    workshop.update([1, 60, 110], value=2.0)
    workshop.delete(range(40, 55))
    return workshop.set(shuffle=SMALL).open()


def damage(batch: OpenBatch, name: str, change: Callable[[bytes], bytes], map_id: int = 0) -> None:
    """Changes a file of a map output behind the store's back."""
    [record] = batch.batch_folder.map_outputs.records([map_id])
    key = f"{map_id}.{record.generation}" if name == "record" else getattr(record, name).key
    file = batch.folder / key
    file.write_bytes(change(file.read_bytes()))


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def generations(batch: OpenBatch) -> list[int]:
    records = batch.batch_folder.map_outputs.records(range(batch.plan.num_map_tasks))
    return [record.generation for record in records]


def require_right(workshop: Workshop, batch: OpenBatch) -> None:
    batch.commit()
    workshop.require_exact(batch.plan, workshop.changes(batch.plan.batch_number))


def test_data_files_are_in_the_storage_or_at_nodes(
    workshop: Workshop, batch: OpenBatch, request: pytest.FixtureRequest
) -> None:
    asked = workshop.machines.requests if workshop.machines else 0
    batch.run_route()
    keys = [
        each.data.key for each in batch.batch_folder.map_outputs.records(range(batch.plan.num_map_tasks)) if each.data
    ]
    over_nodes = request.node.callspec.params["workshop"] == "nodes"
    assert [is_node_key(key) for key in keys] == [over_nodes] * len(keys)
    assert (workshop.machines is not None and workshop.machines.requests > asked) == over_nodes


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


def test_every_phase_can_be_run_twice(workshop: Workshop, batch: OpenBatch) -> None:
    for _ in range(2):
        batch.run(Phase.SHUFFLE_WRITE)
    first = batch.coalesce()
    assert batch.coalesce() == first
    batch.run(Phase.SHUFFLE_READ)
    before = workshop.stored_objects()
    batch.coalesce()
    batch.run(Phase.SHUFFLE_READ)
    assert workshop.stored_objects() == before
    require_right(workshop, batch)


def test_threads_give_the_same_changes(workshop: Workshop, batch: OpenBatch) -> None:
    batch.run(Phase.SHUFFLE_WRITE, LocalEngine(threads=3))
    batch.coalesce()
    batch.run(Phase.SHUFFLE_READ, LocalEngine(threads=3))
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


def test_a_coalesce_that_ended_before_a_damaged_output_was_made_again_is_repeated_as_it_is(
    workshop: Workshop, batch: OpenBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object, **__: object) -> None:
        raise TransientError("the store of the table does not answer")

    batch.run(Phase.SHUFFLE_WRITE)
    damage(batch, "index", flip)
    with monkeypatch.context() as patch:
        patch.setattr("icefloe.batch.reduce.coalesce_map_outputs.write_map_output", silent)
        with pytest.raises(TransientError, match="does not answer"):
            batch.coalesce()
    assert batch.coalesce().epoch == 1
    batch.run(Phase.SHUFFLE_READ)
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


@data_in_the_storage
def test_a_deleted_file_is_damage_and_not_an_empty_output(workshop: Workshop, batch: OpenBatch) -> None:
    batch.run(Phase.SHUFFLE_WRITE)
    batch.coalesce()
    [record] = batch.batch_folder.map_outputs.records([1])
    assert record.data is not None
    batch.store.delete([record.data.key])
    batch.run(Phase.SHUFFLE_READ)
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
        with pytest.raises(BatchCommittedError, match="batch 1 of events is committed already: another run"):
            batch.run(phase)
    with pytest.raises(BatchCommittedError):
        batch.coalesce()


def test_two_functions_lead_from_a_phase_to_a_map_task(batch: OpenBatch, monkeypatch: pytest.MonkeyPatch) -> None:
    frames: list[str] = []

    def note(*_: object, **__: object) -> None:
        codes = [frame.f_code for frame, _ in walk_stack(currentframe())]
        frames.extend(code.co_qualname for code in codes if "plugins/icefloe" in code.co_filename)
        raise TransientError("seen")

    monkeypatch.setattr("icefloe.batch.phases.write_map_output", note)
    with pytest.raises(TransientError, match="seen"):
        batch.run(Phase.SHUFFLE_WRITE, InOrder())
    assert frames[:2] == ["MapTaskRun.__call__", "run_phase"]


def test_of_several_errors_one_that_retrying_cannot_fix_is_raised(batch: OpenBatch) -> None:
    class Failing(InOrder):
        def map(self, *_: object) -> list[object]:
            errors = TransientError("later"), None, TerminalError("never"), TransientError("later")
            return [TaskOutcome(error=error) for error in errors]

    with pytest.raises(TerminalError, match="never"):
        batch.run(Phase.SHUFFLE_WRITE, Failing())  # type: ignore[arg-type]  # its map is not generic


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


def test_a_table_file_that_is_gone_when_coalesce_makes_a_damaged_map_output_again_names_the_way_out(
    batch: OpenBatch,
) -> None:
    batch.run(Phase.SHUFFLE_WRITE)
    damage(batch, "index", lambda _: b"")
    for file in batch.batch_folder.map_task(0).files:
        Path(file.data_file.path.removeprefix("file://")).unlink()
    with pytest.raises(FileGoneError, match="batch 1 is open and needs that file"):
        batch.coalesce()


def test_an_insert_only_batch_whose_records_the_shuffle_replaced_is_written_again(workshop: Workshop) -> None:
    workshop.append([1, 2, 3])
    batch = workshop.open()
    assert batch.plan.route is Route.INSERT_ONLY
    batch.run(Phase.INSERT_ONLY)
    with suppress(MissingMapOutputError):
        batch.coalesce()  # voids the records, and makes map outputs instead
    with pytest.raises(UnfinishedTasksError, match="clear insert_only and its downstream tasks"):
        batch.commit()
    batch.run(Phase.INSERT_ONLY)
    assert batch.commit().counts["insert"] == 3
    assert sorted(workshop.changes()["id"].to_pylist()) == [1, 2, 3]
