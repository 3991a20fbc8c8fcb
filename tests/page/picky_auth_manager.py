"""An auth manager whose users see the DAGs that they are called after, as roles of a company would have it."""

from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

__all__ = ["PickyAuthManager"]


class PickyAuthManager(SimpleAuthManager):
    """The user ``flights`` sees ``flights`` and ``flights__backfill`` with their runs; an admin sees all.

    The user ``flights orders-without-runs`` sees both DAGs, and of ``orders`` no runs; ``flights-alone`` does not see
    the backfills, and ``flights-runs-alone`` has a right to the runs and none to the DAG.
    It decides as the one of Flask AppBuilder does for roles with rights to single DAGs
    (apache-airflow-providers-fab 3.10.2): whoever may see a DAG may list DAGs, and nobody but an admin
    has the right to the runs of no DAG in particular.
    """

    def is_authorized_dag(self, *, user: Any, details: Any = None, access_entity: Any = None, **kwargs: Any) -> bool:
        """True if the user may do that with that DAG."""
        if not super().is_authorized_dag(user=user, details=details, access_entity=access_entity, **kwargs):
            return False
        if user.role == "ADMIN":
            return True
        is_about_runs = access_entity == DagAccessEntity.RUN
        if details is None or details.id is None:
            return not is_about_runs
        names = user.username.split()
        dag_id = details.id.removesuffix("__backfill")
        if f"{details.id}-alone" in names or (is_about_runs and f"{details.id}-runs-alone" in names):
            return True
        return dag_id in names or (f"{dag_id}-without-runs" in names and not is_about_runs)
