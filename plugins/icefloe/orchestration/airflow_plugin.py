"""The page, registered with Airflow. Every task process imports this module: it must stay light."""

import sys
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from icefloe.orchestration.tasks import plugin_parts
from icefloe.orchestration.tasks.plugin_parts import BatchLink

__all__ = ["IcefloePlugin"]


class LazyApp:
    """Makes the page's application at the first request.

    FastAPI and the readers take about a second to import.
    """

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Hands a request on."""
        if self._app is None:
            from icefloe.orchestration.page.app import create_page_app

            self._app = create_page_app()
        await self._app(scope, receive, send)


class IcefloePlugin(AirflowPlugin):
    """The page: an entry of the navigation, a tab on each DAG and each run, a button on tasks."""

    name = "icefloe"
    listeners = [plugin_parts]  # noqa: RUF012 - as Airflow has it
    operator_extra_links = [BatchLink()]  # noqa: RUF012 - as Airflow has it
    fastapi_apps = [{"app": LazyApp(), "url_prefix": "/icefloe", "name": "icefloe"}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {
            "name": "icefloe",
            "href": "icefloe/",
            "destination": "nav",
            "url_route": "icefloe",
            "icon": "icefloe/icon.svg",
            "icon_dark_mode": "icefloe/icon_dark.svg",
            "nav_top_level": True,
        },
        {
            "name": "icefloe",
            "href": "icefloe/?dag_id={DAG_ID}&tab=1",
            "destination": "dag",
            "url_route": "icefloe-dag",
            "icon": "icefloe/icon.svg",
            "icon_dark_mode": "icefloe/icon_dark.svg",
        },
        {
            "name": "icefloe",
            "href": "icefloe/?dag_id={DAG_ID}&run_id={RUN_ID}&tab=1",
            "destination": "dag_run",
            "url_route": "icefloe-run",
            "icon": "icefloe/icon.svg",
            "icon_dark_mode": "icefloe/icon_dark.svg",
        },
    ]


def __getattr__(name: str) -> object:
    """``INSTALLED``, the plugin of an installed package; None if a copy in the plugins folder has registered it."""
    # Airflow reads the folder first. It reports a plugin of the same name, and then may skip those of other packages.
    if name == "INSTALLED":
        return None if "icefloe_plugin" in sys.modules else IcefloePlugin
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
