"""An auth manager whose users see the DAGs that bear their name, as roles of a company would have it."""

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

__all__ = ["PickyAuthManager"]


class PickyAuthManager(SimpleAuthManager):
    """The user ``flights`` sees ``flights`` and ``flights__backfill``, and so on; an admin sees all."""

    def is_authorized_dag(self, *, user: Any, details: Any = None, **kwargs: Any) -> bool:
        """Whether the user may do that with that DAG."""
        if not super().is_authorized_dag(user=user, details=details, **kwargs):
            return False
        dag_id = details.id if details else None
        return dag_id is None or user.role == "ADMIN" or dag_id.removesuffix("__backfill") == user.username
