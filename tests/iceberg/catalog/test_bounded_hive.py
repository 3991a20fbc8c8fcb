from typing import Any

import pytest

from icefloe.iceberg.catalog.bounded_catalogs import bound_client


class Socket:
    def __init__(self) -> None:
        self.timeout: int | None = None

    def setTimeout(self, milliseconds: int) -> None:  # noqa: N802 - Thrift calls it so
        self.timeout = milliseconds


class Buffered:
    """Thrift's transport keeps its socket under the name that Python gives a private attribute."""

    def __init__(self, socket: Socket) -> None:
        self._TBufferedTransport__trans = socket


class Sasl:
    def __init__(self, socket: Socket) -> None:
        self.transport = socket


class Client:
    """The use of transports by PyIceberg's client of a metastore."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.sockets: list[Socket] = []
        self._transport = self._init_thrift_transport()

    def _init_thrift_transport(self) -> Any:
        self.sockets.append(Socket())
        return self.kind(self.sockets[-1])

    def enter_again(self) -> None:
        self._transport = self._init_thrift_transport()


@pytest.mark.parametrize("kind", [Buffered, Sasl])
def test_each_connection_to_a_metastore_has_a_timeout(kind: Any) -> None:
    client = Client(kind)
    bound_client(client, 1.5)
    client.enter_again()
    assert [socket.timeout for socket in client.sockets] == [None, 1_500, 1_500], "the first is never used"
