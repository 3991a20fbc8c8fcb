from collections.abc import Iterator

import pytest

from support.servers.table_server import Table, table_server


@pytest.fixture(scope="session")
def served_table() -> Iterator[Table]:
    with table_server() as served:
        yield served


@pytest.fixture
def table(served_table: Table) -> Table:
    """An empty table. Its server is one for all tests: opening a client takes longer than most of them."""
    served_table.items.clear()
    served_table.calls.clear()
    return served_table
