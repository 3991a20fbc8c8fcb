import pytest

from faults.recorded_table import recorded_states
from support.tables.table_states import TableStates


@pytest.fixture(scope="session")
def states(tmp_path_factory: pytest.TempPathFactory) -> TableStates:
    """The states of a table, made once; each place shows them by a catalog of its own."""
    return recorded_states(tmp_path_factory.mktemp("states"))
