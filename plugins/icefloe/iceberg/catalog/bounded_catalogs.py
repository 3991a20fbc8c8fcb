"""PyIceberg's catalogs with timeouts: its own clients may wait without end."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from pyiceberg.catalog import BOTOCORE_SESSION, Catalog, CatalogType
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


def bounded_hive(name: str, properties: dict[str, str], silence_seconds: float) -> Catalog:
    """The Hive catalog; arguments as `BoundedRestCatalog`."""
    from pyiceberg.catalog.hive import HiveCatalog

    catalog = HiveCatalog(name, **properties)
    bound_client(catalog._client, silence_seconds)  # noqa: SLF001 - PyIceberg has no property for it
    return catalog


def bound_client(client: Any, silence_seconds: float) -> None:
    """Each use of a client makes a new connection, now with a timeout."""
    make = client._init_thrift_transport  # noqa: SLF001 - as above

    def make_bounded() -> Any:
        transport = make()
        # A buffered transport keeps its socket to itself, one with SASL does not.
        socket = getattr(transport, "_TBufferedTransport__trans", None) or transport.transport
        socket.setTimeout(round(silence_seconds * 1000))
        return transport

    client._init_thrift_transport = make_bounded  # noqa: SLF001
    client._transport = make_bounded()  # noqa: SLF001


def bounded_glue(name: str, properties: dict[str, str], silence_seconds: float) -> Catalog:
    """The Glue catalog; arguments as `BoundedRestCatalog`."""
    from pyiceberg.catalog.glue import GlueCatalog

    # Properties are text, and botocore counts with this one.
    numbers = {key: int(value) for key, value in properties.items() if key == "glue.max-retries"}
    return _opened(GlueCatalog, name, {**properties, **numbers}, silence_seconds)


def bounded_dynamodb(name: str, properties: dict[str, str], silence_seconds: float) -> Catalog:
    """The catalog on DynamoDB; arguments as `BoundedRestCatalog`."""
    from pyiceberg.catalog.dynamodb import DynamoDbCatalog

    return _opened(DynamoDbCatalog, name, properties, silence_seconds)


def _opened(kind: Any, name: str, properties: dict[str, Any], silence_seconds: float) -> Catalog:
    from botocore.config import Config
    from botocore.session import get_session

    session, connect_seconds = get_session(), min(_LONGEST_CONNECT_SECONDS, silence_seconds)
    session.set_default_client_config(Config(connect_timeout=connect_seconds, read_timeout=silence_seconds))
    catalog: Catalog = kind(name, **{**properties, BOTOCORE_SESSION: session})
    # FileIOs get these properties and take them to other processes: no live session may be among them.
    catalog.properties = properties
    return catalog


BOUNDED: Final[Mapping[CatalogType, Callable[[str, dict[str, Any], float], Catalog]]] = {
    CatalogType.REST: BoundedRestCatalog,
    CatalogType.HIVE: bounded_hive,
    CatalogType.GLUE: bounded_glue,
    CatalogType.DYNAMODB: bounded_dynamodb,
}
