import pytest
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.variable import Variable
from airflow.utils.session import create_session

from icefloe.errors import TransientError
from icefloe.orchestration.tasks.plugin_parts import OWNER_VARIABLE, current_writer, on_starting

pytestmark = pytest.mark.airflow


def owners() -> list[str]:
    with create_session() as session:
        return [each.val for each in session.query(Variable).filter(Variable.key == OWNER_VARIABLE)]


@pytest.fixture
def no_owner(airflow_database: None) -> None:
    with create_session() as session:
        session.query(Variable).filter(Variable.key == OWNER_VARIABLE).delete()


@pytest.mark.usefixtures("no_owner")
def test_a_component_that_starts_makes_the_owner_once() -> None:
    on_starting("something else")
    assert owners() == []
    on_starting(Job())
    [made] = owners()
    assert len(made) == 32
    SchedulerJobRunner(job=Job())
    on_starting(Job())
    assert owners() == [made]


def test_a_variable_that_cannot_be_read_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Variable, "get", lambda *_, **__: None)
    monkeypatch.setattr("airflow.sdk.Variable.get", lambda *_, **__: None)
    monkeypatch.setattr("airflow.sdk.Variable.set", lambda *_, **__: pytest.fail("a task set the owner"))
    monkeypatch.setattr("airflow.sdk.get_current_context", lambda: {"dag_run": None})
    with pytest.raises(TransientError, match="the Airflow Variable icefloe_owner cannot be read"):
        current_writer()


def test_the_environment_names_the_owner_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEFLOE_OWNER", "production")
    assert current_writer().owner == "production"


def test_outside_of_a_task_there_is_no_run_to_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ICEFLOE_OWNER", raising=False)
    assert (current_writer().owner, current_writer().run) == (None, None)


def test_the_plugin_registers_the_listener_with_airflow() -> None:
    import icefloe_plugin

    assert [each.__name__ for each in icefloe_plugin.IcefloePlugin.listeners] == [
        "icefloe.orchestration.tasks.plugin_parts"
    ]
