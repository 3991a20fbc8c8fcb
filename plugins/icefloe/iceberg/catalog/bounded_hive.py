"""PyIceberg's Hive catalog with a timeout on its socket: Thrift's own waits without end."""

from typing import Any

from pyiceberg.catalog import Catalog


def bounded_hive(name: str, properties: dict[str, str], silence_seconds: float) -> Catalog:
    """The Hive catalog; arguments as `BoundedRestCatalog`."""
    from pyiceberg.catalog.hive import HiveCatalog

    catalog = HiveCatalog(name, **properties)
    bound_client(catalog._client, silence_seconds)  # noqa: SLF001 - PyIceberg has no property for it
    return catalog


def bound_client(client: Any, silence_seconds: float) -> None:
    """Gives each connection of a client a timeout; it makes a new one whenever it is entered again."""
    make = client._init_thrift_transport  # noqa: SLF001 - as above

    def make_bounded() -> Any:
        transport = make()
        # A buffered transport keeps its socket to itself, one with SASL does not.
        socket = getattr(transport, "_TBufferedTransport__trans", None) or transport.transport
        socket.setTimeout(round(silence_seconds * 1000))
        return transport

    client._init_thrift_transport = make_bounded  # noqa: SLF001
    client._transport = make_bounded()  # noqa: SLF001
