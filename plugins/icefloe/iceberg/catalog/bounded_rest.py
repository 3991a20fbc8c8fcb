"""PyIceberg's REST catalog with a timeout on each request: its session has none. Its own authorities always count."""

from functools import partial
from typing import Any, Final

from pyiceberg.catalog.rest import CA_BUNDLE, SNAPSHOT_LOADING_MODE, SSL, RestCatalog
from requests import Session

_LONGEST_CONNECT_SECONDS: Final = 10.0


class BoundedRestCatalog(RestCatalog):
    """A REST catalog that gives up on a silent server.

    Args:
        name: of the catalog.
        properties: of the catalog.
        silence_seconds: the longest time in which the server may send nothing.
    """

    def __init__(self, name: str, properties: dict[str, str], silence_seconds: float) -> None:
        self._timeout = min(_LONGEST_CONNECT_SECONDS, silence_seconds), silence_seconds
        super().__init__(name, **properties)
        # After the server's own settings: with the snapshots of branches alone, all others would look expired.
        self.properties[SNAPSHOT_LOADING_MODE] = "all"

    def _config_headers(self, session: Session) -> None:
        # PyIceberg calls this with each new session before it asks for a token with that session.
        settings: dict[str, Any] = {"timeout": self._timeout}
        # PyIceberg sets this for the session, and there requests prefers REQUESTS_CA_BUNDLE to it.
        if (bundle := (self.properties.get(SSL) or {}).get(CA_BUNDLE)) is not None:
            settings["verify"] = bundle
        session.request = partial(session.request, **settings)  # type: ignore[method-assign]
        super()._config_headers(session)
