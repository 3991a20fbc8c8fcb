"""The page's application, mounted by Airflow's API server: documents behind Airflow's own auth, and static files."""

from pathlib import Path
from typing import Final

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, get_user, requires_access_dag
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles

from icefloe.orchestration.page.server.manual import Manual, UnknownChapterError
from icefloe.orchestration.page.server.page_documents import PageDocuments, UnknownPageError
from icefloe.orchestration.page.server.permitted_dags import may_list_runs, permitted_dags

_STATIC: Final = Path(__file__).parents[1] / "static"
_MAY_READ_RUNS: Final = Depends(requires_access_dag("GET", DagAccessEntity.RUN))


def create_page_app() -> FastAPI:
    """The application. Everything except the static files needs a login; the static files hold nobody's data."""
    app = FastAPI(title="icefloe", docs_url=None, redoc_url=None, openapi_url=None)
    documents = PageDocuments()
    app.include_router(_overview(documents), prefix="/api", dependencies=[Depends(get_user)])
    app.include_router(_documents(documents), prefix="/api", dependencies=[Depends(get_user), _MAY_READ_RUNS])
    app.include_router(_chapters(Manual()), prefix="/docs", dependencies=[Depends(get_user)])
    app.add_exception_handler(UnknownPageError, _not_found)
    app.add_exception_handler(UnknownChapterError, _not_found)
    app.mount("/", StaticFiles(directory=_STATIC, html=True))
    return app


def _overview(documents: PageDocuments) -> APIRouter:
    """The one document of many DAGs. Rights are checked for each DAG, because a right to one is none to another."""
    router = APIRouter()

    @router.get("/overview")
    def overview(session: SessionDep, user: GetUserDep) -> dict[str, object]:
        permitted = permitted_dags(session, user, documents.dag_ids(session))
        if not permitted and not may_list_runs(user):
            raise HTTPException(403, "Forbidden")
        return documents.overview(session, permitted)

    return router


def _documents(documents: PageDocuments) -> APIRouter:
    """The documents of one DAG, whose runs the user may read."""
    router = APIRouter()

    @router.get("/pipelines/{dag_id}")
    def pipeline(session: SessionDep, user: GetUserDep, dag_id: str, before: int | None = None) -> dict[str, object]:
        permitted = permitted_dags(session, user, documents.with_backfills(dag_id))
        return documents.pipeline(session, dag_id, permitted, before=before)

    @router.get("/pipelines/{dag_id}/batches/{number}")
    def batch(session: SessionDep, dag_id: str, number: int) -> dict[str, object]:
        return documents.batch(session, dag_id, number)

    @router.get("/pipelines/{dag_id}/runs/{run_id:path}")
    def run(session: SessionDep, dag_id: str, run_id: str) -> dict[str, object]:
        return documents.run(session, dag_id, run_id)

    @router.get("/pipelines/{dag_id}/snapshots")
    def snapshots(session: SessionDep, dag_id: str) -> dict[str, object]:
        return documents.snapshots(session, dag_id)

    return router


def _chapters(manual: Manual) -> APIRouter:
    router = APIRouter()

    @router.get("/images/{name}.png")
    def picture(name: str) -> FileResponse:
        return FileResponse(manual.picture(name))

    @router.get("/{name}")
    def chapter(name: str) -> HTMLResponse:
        return HTMLResponse(manual.page(name))

    return router


async def _not_found(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001 - the signature is FastAPI's
    return JSONResponse({"detail": str(error)}, status_code=404)
