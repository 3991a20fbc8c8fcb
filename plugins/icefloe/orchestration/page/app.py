"""The page's application, mounted by Airflow's API server: documents behind Airflow's own auth, and static files."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, get_user, requires_access_dag
from fastapi import APIRouter, Depends, FastAPI
from fastapi.staticfiles import StaticFiles

from icefloe.orchestration.page.checkpoint_reader import CheckpointReader
from icefloe.orchestration.page.dag_reader import DagReader
from icefloe.orchestration.page.dag_state import DagState
from icefloe.orchestration.page.document_cache import Found
from icefloe.orchestration.page.overview import overview_document

__all__ = ["create_page_app"]

STATIC: Final = Path(__file__).parent / "static"


def create_page_app() -> FastAPI:
    """The application. Everything below ``api/`` asks for a login; the static files hold nothing of anybody's."""
    app = FastAPI(title="icefloe", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(_documents(), prefix="/api", dependencies=[Depends(get_user)])
    app.mount("/", StaticFiles(directory=STATIC, html=True))
    return app


def _documents() -> APIRouter:
    router = APIRouter()
    dags, checkpoints = DagReader(), CheckpointReader()

    @router.get("/overview", dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.RUN))])
    def overview(user: GetUserDep, session: SessionDep) -> dict[str, Any]:
        permitted = get_auth_manager().get_authorized_dag_ids(user=user, method="GET", session=session)
        found = dags.dags(session, permitted)
        return overview_document(found, _statuses(checkpoints, found), now=datetime.now(UTC))

    return router


def _statuses(checkpoints: CheckpointReader, dags: list[DagState]) -> dict[str, Found]:
    return checkpoints.statuses(
        {dag.dag_id: dag.facts.pipeline for dag in dags if dag.facts.pipeline is not None and not dag.is_backfill}
    )
