"""The page's application in Airflow's API server."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import BaseAuthManager
from airflow.api_fastapi.auth.managers.models.batch_apis import IsAuthorizedDagRequest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, get_user, requires_access_dag
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from sqlalchemy.orm import Session

from icefloe.orchestration.page.page_documents import PageDocuments

__all__ = ["create_page_app"]

_STATIC: Final = Path(__file__).parent / "static"
_CHAPTERS: Final = Path(__file__).parents[4] / "docs"
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]*")
_MAY_READ_RUNS: Final = Depends(requires_access_dag("GET", DagAccessEntity.RUN))


def permitted_dags(session: Session, user: object, dag_ids: Collection[str]) -> set[str]:
    """The given DAGs that the user may see with their runs."""
    # A right to a DAG is none to its runs, and a role may give the right to the runs of one DAG alone.
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
    """True if the user has the general right to runs, not just for single DAGs."""
    manager: BaseAuthManager[object] = get_auth_manager()
    return manager.is_authorized_dag(**_runs_of(DagDetails()), user=user)


def _runs_of(details: DagDetails) -> IsAuthorizedDagRequest:
    return {"method": "GET", "access_entity": DagAccessEntity.RUN, "details": details}


def create_page_app() -> FastAPI:
    """The application. All but the static files needs a login; they hold nobody's data."""
    app = FastAPI(title="icefloe", docs_url=None, redoc_url=None, openapi_url=None)
    documents = PageDocuments()
    login, reads_runs = [Depends(get_user)], [Depends(get_user), _MAY_READ_RUNS]

    @app.get("/api/overview", dependencies=login)
    def overview(session: SessionDep, user: GetUserDep) -> dict[str, object]:
        permitted = permitted_dags(session, user, documents.dags.dag_ids(session))
        if not permitted and not may_list_runs(user):
            raise HTTPException(403, "Forbidden")
        return documents.overview(session, permitted)

    @app.get("/api/pipelines/{dag_id}", dependencies=reads_runs)
    def pipeline(
        session: SessionDep, user: GetUserDep, dag_id: str, group: str | None = None, before: int | None = None
    ) -> dict[str, object]:
        permitted = permitted_dags(session, user, documents.with_backfills(dag_id))
        return documents.pipeline(session, dag_id, permitted, group=group, before=before)

    app.get("/api/pipelines/{dag_id}/batches/{number}", dependencies=reads_runs)(documents.batch)
    app.get("/api/pipelines/{dag_id}/runs/{run_id:path}", dependencies=reads_runs)(documents.run)
    app.get("/api/pipelines/{dag_id}/snapshots", dependencies=reads_runs)(documents.snapshots)

    @app.get("/docs/{name}.md", dependencies=login)
    def chapter(name: str) -> FileResponse:
        path = _CHAPTERS / f"{name}.md"
        if not _NAME.fullmatch(name) or not path.is_file():
            raise HTTPException(404, f"the documentation has no page {name!r}, or is not installed next to plugins/")
        return FileResponse(path, media_type="text/plain")

    app.mount("/", StaticFiles(directory=_STATIC, html=True))
    return app
