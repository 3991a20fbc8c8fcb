import pytest
from airflow.models.variable import Variable
from airflow.utils.session import create_session

from icefloe.orchestration.owner import OWNER_VARIABLE, current_writer, on_starting

pytestmark = pytest.mark.airflow


class SchedulerJobRunner:
    """Called like Airflow's, which is what a listener is told of."""


class TriggererJobRunner:
    """Another component."""


def owners() -> list[str]:
    with create_session() as session:
        return [each.val for each in session.query(Variable).filter(Variable.key == OWNER_VARIABLE)]


@pytest.fixture
def no_owner(airflow_database: None) -> None:
    with create_session() as session:
        session.query(Variable).filter(Variable.key == OWNER_VARIABLE).delete()


@pytest.mark.usefixtures("no_owner")
def test_the_scheduler_makes_the_owner_once_and_nobody_else_does() -> None:
    on_starting(TriggererJobRunner())
    assert owners() == []
    on_starting(SchedulerJobRunner())
    [made] = owners()
    assert len(made) == 32
    on_starting(SchedulerJobRunner())
    assert owners() == [made]


def test_the_environment_names_the_owner_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEFLOE_OWNER", "production")
    assert current_writer().owner == "production"


def test_outside_of_a_task_there_is_no_run_to_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ICEFLOE_OWNER", raising=False)
    assert (current_writer().owner, current_writer().run) == (None, None)


def test_the_plugin_tells_airflow_of_the_listener() -> None:
    import icefloe_plugin

    assert [each.__name__ for each in icefloe_plugin.IcefloePlugin.listeners] == ["icefloe.orchestration.owner"]
