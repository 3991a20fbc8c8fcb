"""The documents that each user may see on the page, asked of Airflow's own app with real logins."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.routing import Route

from support.pipelines.lake import Lake, TaskStates

pytestmark = pytest.mark.airflow

OF_AIRFLOW = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
VALUES = {"dag_id": "flights", "number": "0", "run_id:path": "some", "name": "changes"}


def routes() -> Iterator[tuple[str, frozenset[str]]]:
    """Every route of the page's application, with a value for each parameter; the folder of static files is none."""
    from icefloe.orchestration.page.app import create_page_app

    for route in create_page_app().routes:
        if isinstance(route, Route):
            path = re.sub(r"{([^}]+)}", lambda match: VALUES[match[1]], route.path)
            yield path.lstrip("/"), frozenset(route.methods or ())


def test_no_route_answers_without_a_login(client: Callable[..., Any]) -> None:
    found = dict(routes())
    assert len(found) >= 6
    for path, methods in found.items():
        assert methods == {"GET"}, path
        for variant in (path, f"{path}/", f"{path}?tab=1", path.upper(), f"./{path}", f"x/../{path}", f"{path};x=1"):
            assert client(variant).status_code in (307, 401, 404), variant
        refused = client(path)
        assert (refused.status_code, set(refused.json())) == (401, {"detail"}), path
        assert client(path, token="made.up.token").status_code in (401, 403), path


def test_no_document_is_for_a_user_without_a_role_or_without_a_right_to_the_dag(client: Callable[..., Any]) -> None:
    for path, _ in routes():
        if path.startswith("docs/"):
            continue  # the documentation is for everybody who has a login
        assert client(path, "mallory", None).status_code == 403, path
        if "flights" in path:
            assert client(path, "orders").status_code == 403, path


@pytest.fixture
def two_pipelines(lake: Lake, run_dag: Callable[..., TaskStates]) -> None:
    """``flights`` and ``orders``, both known to Airflow."""
    for name in ("flights", "orders"):
        lake.write_pipeline(name, sink={"type": "files", "path": f"file://{lake.folder}/changes/{name}"})
    run_dag("flights")


def seen(answer: Any) -> tuple[int, list[str]]:
    """The status, and which of the two pipelines an overview has; other tests leave DAGs in Airflow's database."""
    found = {row["dag_id"] for row in answer.json().get("pipelines", ())}
    return answer.status_code, sorted(found & {"flights", "orders"})


OVERVIEWS = ("api/overview", "api/overview?dag_id=flights")


def test_a_user_with_a_right_to_the_runs_of_one_dag_sees_that_one(
    client: Callable[..., Any], two_pipelines: None
) -> None:
    for path in OVERVIEWS:
        for name in ("flights", "flights orders-without-runs", "flights orders-runs-alone"):
            assert seen(client(path, name)) == (200, ["flights"]), (path, name)
        assert seen(client(path, "admin", "ADMIN"))[1] == ["flights", "orders"], path
    assert client("api/pipelines/orders", "flights orders-without-runs").status_code == 403
    assert client("api/pipelines/orders?dag_id=flights", "flights").status_code == 403


def test_a_user_without_a_right_to_the_runs_of_any_dag_is_refused_the_overview(
    client: Callable[..., Any], two_pipelines: None
) -> None:
    for path in OVERVIEWS:
        for name, role in (("mallory", "VIEWER"), ("flights-without-runs", "USER"), ("flights", None)):
            assert seen(client(path, name, role)) == (403, []), (path, name)


@pytest.fixture
def team(two_pipelines: None) -> Iterator[str]:
    """The team that all DAGs of the folder belong to."""
    from airflow.models.dag import DagModel
    from airflow.models.team import Team, dag_bundle_team_association_table
    from airflow.utils.session import create_session
    from sqlalchemy import delete, insert

    with create_session() as session:
        session.add(Team(name="travel"))
        session.flush()
        session.execute(
            insert(dag_bundle_team_association_table).values(dag_bundle_name="dags-folder", team_name="travel")
        )
    DagModel.get_team_name.cache_clear()
    yield "travel"
    with create_session() as session:
        session.execute(delete(dag_bundle_team_association_table))
        session.execute(delete(Team))
    DagModel.get_team_name.cache_clear()


@pytest.mark.parametrize("client", [OF_AIRFLOW], indirect=True)
def test_the_auth_manager_of_airflow_itself_keeps_teams_apart(client: Callable[..., Any], team: str) -> None:
    assert seen(client("api/overview", "anna", team=team)) == (200, ["flights", "orders"])
    assert client("api/pipelines/flights", "anna", team=team).status_code == 200
    for path in ("api/overview", "api/overview?dag_id=other"):
        assert seen(client(path, "otto", team="other")) == (200, [])
    assert client("api/pipelines/flights", "otto", team="other").status_code == 403
    assert client("api/overview", "otto", None, team=team).status_code == 403


def test_static_files_are_served_and_say_nothing_of_anybody(client: Callable[..., Any]) -> None:
    assert client("").text.startswith("<!doctype html>")
    assert client("overview.js").status_code == 200
    assert client("api/../app.py").status_code == 404


def test_the_documentation_is_open_to_every_user_with_a_login(client: Callable[..., Any]) -> None:
    assert "_change_type" in client("docs/changes.md", "anybody").text
    assert client("docs/no_such.md", "anybody").status_code == 404
    assert client("docs/..%2FREADME.md", "anybody").status_code == 404
