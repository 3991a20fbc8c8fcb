"""The DAGs whose runs a user may see, asked of Airflow's auth manager for each DAG by name."""

from collections.abc import Collection

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import BaseAuthManager
from airflow.api_fastapi.auth.managers.models.batch_apis import IsAuthorizedDagRequest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.models.dag import DagModel
from sqlalchemy.orm import Session


def permitted_dags(session: Session, user: object, dag_ids: Collection[str]) -> set[str]:
    """DAGs among the given ones that the user may see with their runs: the page shows both.

    A right to a DAG is none to its runs, and a role may give the right to the runs of one DAG alone.
    """
    manager: BaseAuthManager[object] = get_auth_manager()
    visible = set(dag_ids) & manager.get_authorized_dag_ids(user=user, method="GET", session=session)
    if not visible:
        return set()
    teams = DagModel.get_dag_id_to_team_name_mapping(list(visible), session=session)
    requests = {dag_id: _runs_of(DagDetails(id=dag_id, team_name=teams.get(dag_id))) for dag_id in visible}
    # One question for all is a single request to a server that keeps the rights, and most users may see all.
    if manager.batch_is_authorized_dag(list(requests.values()), user=user):
        return visible
    return {dag_id for dag_id, request in requests.items() if manager.is_authorized_dag(**request, user=user)}


def may_list_runs(user: object) -> bool:
    """True if the user has the right to runs in general; a role for single DAGs does not give it."""
    manager: BaseAuthManager[object] = get_auth_manager()
    return manager.is_authorized_dag(**_runs_of(DagDetails()), user=user)


def _runs_of(details: DagDetails) -> IsAuthorizedDagRequest:
    return {"method": "GET", "access_entity": DagAccessEntity.RUN, "details": details}
