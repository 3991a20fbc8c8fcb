from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import airflow_environment
from support.pipelines.lake import Lake, TaskStates

PICKY = "page.picky_auth_manager.PickyAuthManager"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A table in a catalog that Airflow knows as the connection ``lakehouse``."""
    made = Lake.create(tmp_path, airflow_environment.PIPELINES)
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE", made.connection)
    yield made
    for path in airflow_environment.PIPELINES.iterdir():
        path.unlink()


@pytest.fixture
def run_dag(airflow_database: None) -> Callable[..., TaskStates]:
    """Runs a DAG of the dags folder in this process, as `airflow dags test` does."""
    from airflow.dag_processing.dagbag import DagBag

    def run(dag_id: str, *, marked_success: str | None = None, **conf: Any) -> TaskStates:
        bag = DagBag(airflow_environment.DAGS, bundle_name="dags-folder")
        assert bag.import_errors == {}
        dag_run = bag.dags[dag_id].test(run_conf=conf or None, mark_success_pattern=marked_success)
        states = {task.task_id: str(task.state) for task in dag_run.get_task_instances()}
        return TaskStates(run_state=str(dag_run.state), by_task=states, run_id=dag_run.run_id)

    return run


@pytest.fixture
def clear_task(airflow_database: None) -> Callable[[str, str, str], str]:
    """Clears one task of a run that has ended, and runs it again in this process; returns its state."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.models.taskinstance import TaskInstance, clear_task_instances
    from airflow.sdk.definitions.dag import _run_task
    from airflow.utils.session import create_session

    def clear(dag_id: str, run_id: str, task_id: str) -> str:
        task = DagBag(airflow_environment.DAGS, bundle_name="dags-folder").dags[dag_id].task_dict[task_id]
        with create_session() as session:
            wanted = TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id, TaskInstance.task_id == task_id
            found = session.query(TaskInstance).filter(*wanted).one()
            clear_task_instances([found], session)
            found.try_number += 1
            session.flush()
            session.expunge(found)
        _run_task(ti=found, task=task)
        return str(getattr(found.state, "value", found.state))

    return clear


@pytest.fixture
def client(
    request: pytest.FixtureRequest, airflow_database: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Any]]:
    """Asks the page as a user; without a name, as nobody. The auth manager is the picky one, or the parameter."""
    from airflow.api_fastapi.app import create_app, get_auth_manager, purge_cached_app
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", getattr(request, "param", PICKY))
    purge_cached_app()
    app = TestClient(create_app(apps="core"))

    def ask(
        path: str, name: str | None = None, role: str | None = "VIEWER", *, token: str | None = None, team: str = ""
    ) -> Any:
        if name is not None:
            user = SimpleAuthManagerUser(username=name, role=role, teams=[team])
            token = get_auth_manager().generate_jwt(user)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return app.get(f"/icefloe/{path}", headers=headers, follow_redirects=False)

    yield ask
    purge_cached_app()
