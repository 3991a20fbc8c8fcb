"""PyIceberg's REST catalog with timeouts: its own requests may wait without end."""

from functools import partial
from typing import Any, Final

from pyiceberg.catalog.rest import CA_BUNDLE, SNAPSHOT_LOADING_MODE, SSL, RestCatalog
from requests import Response, Session

from icefloe.iceberg.catalog.catalog_errors import decodable

_LONGEST_CONNECT_SECONDS: Final = 10.0
_PIECE_BYTES: Final = 1 << 20


class BoundedRestCatalog(RestCatalog):
    """Gives up on a silent server, and on answers that no catalog gives."""

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
        # Called for answers that redirect, too, and before anything of a body is read.
        session.hooks["response"].append(self._read_bounded)
        super()._config_headers(session)

    def _read_bounded(self, response: Response, *_: object, **__: object) -> None:
        content = decodable(response.iter_content(_PIECE_BYTES), f"an answer of catalog {self.name!r}")
        response._content = bytes(content)  # noqa: SLF001 - as `content` itself does
