from pathlib import Path
from typing import Literal

import pytest

from icefloe.batch.map.write_map_output import write_map_output
from icefloe.batch.phase_record import CheckResult, PhaseRecord, TrackedApplication, load_phases, recorded_phase
from icefloe.batch.report import BatchReport
from icefloe.errors import TerminalError, TransientError
from icefloe.flow import FlowTask, Phase, Route
from icefloe.shuffle.committed_output import CorruptMapOutputError, LostOutputs
from icefloe.storage.location import open_store
from icefloe.storage.store import Store
from support.pipelines.workshop import InOrder, OpenBatch, Workshop


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"file://{tmp_path}/batch")


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    """Three map tasks, planned and not begun."""
    return workshop.in_tasks(3).open()


def phase(batch: OpenBatch, name: str) -> PhaseRecord:
    return next(record for record in load_phases(batch.store, Route.SHUFFLE) if record.phase == name)


def fail(store: Store) -> None:
    with recorded_phase(store, "shuffle_read") as tally:
        tally.record.tasks_run, tally.record.tasks_failed = 3, 1
        raise TransientError("the store timed out")


def test_attempts_add_up(store: Store) -> None:
    with pytest.raises(TransientError):
        fail(store)
    with recorded_phase(store, "shuffle_read") as tally:
        tally.begin(1, of=3)
    [record] = load_phases(store, Route.SHUFFLE)
    assert (record.attempts, record.tasks_found, record.tasks_run, record.tasks_failed) == (2, 2, 4, 1)
    assert record.seconds > 0


def test_the_spark_application_of_the_last_attempt_is_named_as_soon_as_it_runs(store: Store) -> None:
    with recorded_phase(store, "shuffle_read", application=TrackedApplication(id="app-1", ui="http://driver:4040")):
        [record] = load_phases(store, Route.SHUFFLE)
        assert (record.spark_application_id, record.spark_ui) == ("app-1", "http://driver:4040")
    with recorded_phase(store, "shuffle_read", application=TrackedApplication(id="app-2")):
        pass
    [record] = load_phases(store, Route.SHUFFLE)
    assert (record.spark_application_id, record.spark_ui) == ("app-2", None)
    with recorded_phase(store, "shuffle_read"):
        pass
    assert load_phases(store, Route.SHUFFLE)[0].spark_application_id is None


def test_an_attempt_that_fails_late_takes_no_checks_back(store: Store) -> None:
    def check(outcome: Literal["passed", "failed"]) -> None:
        with recorded_phase(store, "check") as tally:
            tally.record.checks = (CheckResult(name="large", outcome=outcome, digest="0"),)

    for _ in range(2):
        hanging = recorded_phase(store, "check")
        hanging.__enter__()
        check("passed")
        hanging.__exit__(TransientError, TransientError("the store timed out"), None)
        [record] = load_phases(store, then=[FlowTask.CHECK])
        assert [each.outcome for each in record.checks] == ["passed"]
        check("failed")


def test_an_attempt_that_is_killed_counts_without_a_time(store: Store) -> None:
    attempt = recorded_phase(store, "coalesce")
    attempt.__enter__()
    [record] = load_phases(store, Route.SHUFFLE)
    assert (record.attempts, record.seconds, record.is_running) == (1, 0.0, True)
    with recorded_phase(store, "coalesce"):
        pass
    [record] = load_phases(store, Route.SHUFFLE)
    assert (record.attempts, record.attempts_lost, record.is_running) == (2, 1, False)


def test_a_damaged_record_is_counted_from_scratch(store: Store) -> None:
    store.put("phases/coalesce.json", b"{")
    with recorded_phase(store, "coalesce"):
        pass
    assert load_phases(store, Route.SHUFFLE)[0].attempts == 1


def test_a_rerun_counts_what_it_found_and_what_it_ran(batch: OpenBatch) -> None:
    tasks = batch.plan.num_map_tasks
    batch.run(Phase.SHUFFLE_WRITE)
    batch.store.delete(["0.0"])
    batch.run(Phase.SHUFFLE_WRITE)
    written = phase(batch, "shuffle_write")
    assert (written.attempts, written.tasks_found, written.tasks_run) == (2, tasks - 1, tasks + 1)
    assert (written.tasks_failed, written.tasks_adopted) == (0, 0)


def test_a_task_that_another_attempt_has_done_meanwhile_is_adopted(batch: OpenBatch) -> None:
    class Late(InOrder):
        def map(self, function: object, numbers: object) -> list[object]:
            write_map_output(batch.inputs, 0)
            return super().map(function, numbers)  # type: ignore[arg-type]

    batch.run(Phase.SHUFFLE_WRITE, Late())  # type: ignore[arg-type]  # its map is not generic
    assert phase(batch, "shuffle_write").tasks_adopted == 1


def test_a_node_that_is_lost_is_recorded_before_its_outputs_are_made_again(store: Store) -> None:
    with pytest.raises(TerminalError):
        lose_a_node_and_die(store)
    [record] = load_phases(store, Route.SHUFFLE)
    [node] = record.nodes_lost
    assert (node.address, node.map_outputs) == ("a:1", 2), "two ranges found the same"
    with recorded_phase(store, "shuffle_read"):
        pass
    [record] = load_phases(store, Route.SHUFFLE)
    assert (record.nodes_lost, record.attempts_lost) == ((node,), 1)


def lose_a_node_and_die(store: Store) -> None:
    reason = "it does not answer"
    nodes = (LostOutputs("a:1", reason, ((0, 0), (1, 0))),)
    lost = CorruptMapOutputError(f"node a:1: {reason}", map_id=0, generation=0, reason=reason, nodes=nodes)
    with recorded_phase(store, "shuffle_read") as tally:
        tally.lose_nodes([lost, lost])
        raise TerminalError("this end leaves no record, like a kill")


def shuffled(workshop: Workshop) -> BatchReport:
    report = workshop.in_tasks(2).deliver()
    assert report is not None
    return report


def test_a_report_has_the_time_of_each_phase(workshop: Workshop) -> None:
    report = shuffled(workshop)
    assert [phase.phase for phase in report.phases] == ["plan", "shuffle_write", "coalesce", "shuffle_read", "commit"]
    assert all(phase.seconds > 0 and phase.attempts == 1 for phase in report.phases)
    assert report.seconds is not None
    assert report.seconds >= sum(phase.seconds for phase in report.phases[1:4])
