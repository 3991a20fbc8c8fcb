from collections.abc import Iterator

import pytest

from support.servers.table_server import Table, table_server


@pytest.fixture
def table() -> Iterator[Table]:
    with table_server() as served:
        yield served
