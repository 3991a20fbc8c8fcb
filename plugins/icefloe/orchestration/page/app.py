"""The page's application in Airflow's API server."""

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import BaseAuthManager
from airflow.api_fastapi.auth.managers.models.batch_apis import IsAuthorizedDagRequest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, get_user, requires_access_dag
from airflow.models.dag import DagModel
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from markdown_it import MarkdownIt
from markdown_it.token import Token
from sqlalchemy.orm import Session

from icefloe.orchestration.page.page_documents import PageDocuments, UnknownPageError

__all__ = ["create_page_app"]

_FOLDER: Final = Path(__file__).parents[4] / "docs"
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]*")
_CHAPTER: Final = re.compile(r"([a-z][a-z0-9_-]*)\.md(#.*)?")
_MARKS: Final = re.compile(r"[^\w\- ]")


class Manual:
    """The chapters of a folder of Markdown files; none if it is missing."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        self._folder = folder
        # No HTML of the files reaches a browser, and no address except those that Markdown's own rules allow.
        self._markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
        self._rendered = lru_cache(maxsize=64)(self._render)

    def chapters(self) -> list[str]:
        """The names of the chapters, as in addresses."""
        found = (path.stem for path in self._folder.glob("*.md"))
        return sorted(name for name in found if _NAME.fullmatch(name))

    def page(self, name: str) -> str:
        """A chapter as HTML."""
        if name not in self.chapters():
            raise UnknownPageError(f"the documentation has no page {name!r}, or is not installed next to plugins/")
        path = self._folder / f"{name}.md"
        return self._rendered(path, path.stat().st_mtime_ns)

    def picture(self, name: str) -> Path:
        """The file of a picture."""
        path = self._folder / "images" / f"{name}.png"
        if not _NAME.fullmatch(name) or not path.is_file():
            raise UnknownPageError(f"the documentation has no picture {name!r}")
        return path

    def _render(self, path: Path, _written_ns: int) -> str:
        tokens = self._markdown.parse(path.read_text(encoding="utf-8"))
        title = next((after.content for token, after in _neighbours(tokens) if token.type == "heading_open"), path.stem)
        for token, after in _neighbours(tokens):
            if token.type == "heading_open":
                token.attrSet("id", anchor(after.content))
            for child in token.children or ():
                _follow(child)
        body = self._markdown.renderer.render(tokens, self._markdown.options, {})
        links = " · ".join(f'<a href="{each}">{escape(each)}</a>' for each in self.chapters())
        return _PAGE.format(title=escape(title), links=links, body=body)


def anchor(heading: str) -> str:
    """The anchor that links to a heading, as code hosts make it.

    >>> anchor("Counters, sent by `commit` once per batch")
    'counters-sent-by-commit-once-per-batch'
    """
    return _MARKS.sub("", heading.lower()).replace(" ", "-")


def _neighbours(tokens: list[Token]) -> Iterator[tuple[Token, Token]]:
    return zip(tokens, [*tokens[1:], Token("", "", 0)], strict=True)


def _follow(token: Token) -> None:
    if token.type != "link_open":
        return
    href = str(token.attrGet("href") or "")
    chapter = _CHAPTER.fullmatch(href)
    if chapter is not None:
        token.attrSet("href", f"{chapter[1]}{chapter[2] or ''}")
    elif "://" in href:
        token.attrSet("target", "_blank")
        token.attrSet("rel", "noreferrer")
    elif not href.startswith("#"):
        del token.attrs["href"]


_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} - icefloe</title>
<link rel="icon" href="../icon.svg">
<link rel="stylesheet" href="../style.css">
<link rel="stylesheet" href="../parts.css">
<link rel="stylesheet" href="../manual.css">
<script type="module" blocking="render" src="../manual.js"></script>
</head>
<body>
<main>
<nav class="crumbs" aria-label="Where you are"><a href="../">icefloe</a> / {links}</nav>
<article>
{body}</article>
</main>
</body>
</html>
"""


def permitted_dags(session: Session, user: object, dag_ids: Collection[str]) -> set[str]:
    """The given DAGs that the user may see with their runs.

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
    """True if the user has the general right to runs, not just for single DAGs."""
    manager: BaseAuthManager[object] = get_auth_manager()
    return manager.is_authorized_dag(**_runs_of(DagDetails()), user=user)


def _runs_of(details: DagDetails) -> IsAuthorizedDagRequest:
    return {"method": "GET", "access_entity": DagAccessEntity.RUN, "details": details}


_STATIC: Final = Path(__file__).parent / "static"
_MAY_READ_RUNS: Final = Depends(requires_access_dag("GET", DagAccessEntity.RUN))


def create_page_app() -> FastAPI:
    """The application. All but the static files needs a login; they hold nobody's data."""
    app = FastAPI(title="icefloe", docs_url=None, redoc_url=None, openapi_url=None)
    documents = PageDocuments()
    app.include_router(_overview(documents), prefix="/api", dependencies=[Depends(get_user)])
    app.include_router(_documents(documents), prefix="/api", dependencies=[Depends(get_user), _MAY_READ_RUNS])
    app.include_router(_chapters(Manual()), prefix="/docs", dependencies=[Depends(get_user)])
    app.add_exception_handler(UnknownPageError, _not_found)
    app.mount("/", StaticFiles(directory=_STATIC, html=True))
    return app


def _overview(documents: PageDocuments) -> APIRouter:
    router = APIRouter()

    @router.get("/overview")
    def overview(session: SessionDep, user: GetUserDep) -> dict[str, object]:
        permitted = permitted_dags(session, user, documents.dag_ids(session))
        if not permitted and not may_list_runs(user):
            raise HTTPException(403, "Forbidden")
        return documents.overview(session, permitted)

    return router


def _documents(documents: PageDocuments) -> APIRouter:
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
