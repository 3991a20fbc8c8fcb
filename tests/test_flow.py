import pytest

from icefloe.flow import WORKING_TASKS, FlowTask, Phase, Route


def test_every_task_is_on_all_routes_or_on_one() -> None:
    on_routes = [task for route in Route for task in route.tasks()]
    assert len(on_routes) == len(set(on_routes))
    assert set(FlowTask) - set(on_routes) == {
        FlowTask.WAIT_FOR_SNAPSHOT, FlowTask.PLAN, FlowTask.ROUTE, FlowTask.CHECK, FlowTask.DELIVER,
        FlowTask.COMMIT, FlowTask.CLEANUP,
    }  # fmt: skip


@pytest.mark.parametrize("then", [(), (FlowTask.DELIVER,), (FlowTask.CHECK, FlowTask.DELIVER)])
def test_tasks_run_in_the_order_in_which_they_are_listed(then: tuple[FlowTask, ...]) -> None:
    order = list(FlowTask)
    for route in Route:
        edges = list(route.edges(then))
        assert all(order.index(before) < order.index(after) for before, after in edges)
        assert {FlowTask.CHECK, FlowTask.DELIVER} & dict(edges).keys() == {*then}


def test_an_engine_runs_the_tasks_that_are_called_like_a_phase() -> None:
    assert [task.phase for task in FlowTask if task.phase] == list(Phase)


def test_working_tasks_are_those_of_the_records() -> None:
    assert [task.value for task in WORKING_TASKS] == [
        "plan", "insert_only", "shuffle_write", "coalesce", "shuffle_read", "check", "deliver", "commit", "cleanup",
    ]  # fmt: skip
