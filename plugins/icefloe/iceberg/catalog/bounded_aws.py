"""PyIceberg's catalogs on AWS with shorter timeouts than botocore's own minute for each of many tries."""

from typing import Any, Final

from pyiceberg.catalog import BOTOCORE_SESSION, Catalog

_LONGEST_CONNECT_SECONDS: Final = 10.0
_NUMBERS: Final = ("glue.max-retries",)


def bounded_glue(name: str, properties: dict[str, str], silence_seconds: float) -> Catalog:
    """The Glue catalog; arguments as `BoundedRestCatalog`."""
    from pyiceberg.catalog.glue import GlueCatalog

    # Properties are text, and botocore counts with these.
    numbers = {key: int(properties[key]) for key in _NUMBERS if key in properties}
    return _opened(GlueCatalog, name, {**properties, **numbers}, silence_seconds)


def bounded_dynamodb(name: str, properties: dict[str, str], silence_seconds: float) -> Catalog:
    """The catalog on DynamoDB; arguments as `BoundedRestCatalog`."""
    from pyiceberg.catalog.dynamodb import DynamoDbCatalog

    return _opened(DynamoDbCatalog, name, properties, silence_seconds)


def bounded_session(silence_seconds: float) -> object:
    """A session of botocore whose clients give up on a silent server."""
    from botocore.config import Config
    from botocore.session import get_session

    session = get_session()
    connect_seconds = min(_LONGEST_CONNECT_SECONDS, silence_seconds)
    session.set_default_client_config(Config(connect_timeout=connect_seconds, read_timeout=silence_seconds))
    return session


def _opened(kind: Any, name: str, properties: dict[str, Any], silence_seconds: float) -> Catalog:
    catalog: Catalog = kind(name, **{**properties, BOTOCORE_SESSION: bounded_session(silence_seconds)})
    # FileIOs get these properties and take them to other processes: no live session may be among them.
    catalog.properties = properties
    return catalog
