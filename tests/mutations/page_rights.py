"""Mutations of the page: each shows something to a user without the right to see it."""

from typing import Final

from mutations.mutation import Mutation

__all__ = ["PAGE_RIGHTS"]

_RIGHTS: Final = ("tests/dags/test_page_rights.py",)

PAGE_RIGHTS: Final = (
    Mutation(
        name="a login is enough for the documents of any pipeline",
        path="orchestration/page/server/app.py",
        before="dependencies=[Depends(get_user), _MAY_READ_RUNS]",
        after="dependencies=[Depends(get_user)]",
        suite=_RIGHTS,
    ),
    Mutation(
        name="the documentation needs no login",
        path="orchestration/page/server/app.py",
        before='prefix="/docs", dependencies=[Depends(get_user)]',
        after='prefix="/docs"',
        suite=_RIGHTS,
    ),
    Mutation(
        name="the overview shows every pipeline to every user",
        path="orchestration/page/server/app.py",
        before="permitted_dags(session, user, documents.dag_ids(session))",
        after="set(documents.dag_ids(session))",
        suite=_RIGHTS,
    ),
    Mutation(
        name="a user without a right to any run gets an empty overview",
        path="orchestration/page/server/app.py",
        before="if not permitted and not may_list_runs(user):",
        after="if False:",
        suite=_RIGHTS,
    ),
    Mutation(
        name="the page of a pipeline shows backfills of a DAG without a right",
        path="orchestration/page/server/app.py",
        before="permitted_dags(session, user, documents.with_backfills(dag_id))",
        after="documents.with_backfills(dag_id)",
        suite=("tests/dags/test_page.py",),
    ),
    Mutation(
        name="a right to a DAG is one to its runs",
        path="orchestration/page/server/permitted_dags.py",
        before="if manager.batch_is_authorized_dag(list(requests.values()), user=user):",
        after="if True:",
        suite=_RIGHTS,
    ),
    Mutation(
        name="a right to runs is one to a DAG that the user may not see",
        path="orchestration/page/server/permitted_dags.py",
        before='set(dag_ids) & manager.get_authorized_dag_ids(user=user, method="GET", session=session)',
        after="set(dag_ids)",
        suite=_RIGHTS,
    ),
)
