"""The page's application, made late: every task process imports the plugin."""

from typing import Any

__all__ = ["LazyApp"]


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
