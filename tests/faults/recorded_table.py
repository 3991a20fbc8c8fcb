"""The table of all scenarios."""

from pathlib import Path

from support.pipelines.workspace import Workspace
from support.tables.table_states import TableStates

__all__ = ["recorded_states"]


def recorded_states(folder: Path) -> TableStates:
    """The states of the table, in the order in which it had them."""
    states = TableStates(Workspace.create(folder))
    table = states.workspace
    with table.table.transaction() as change:
        change.set_properties({"write.parquet.row-group-limit": "4"})
    for start in range(0, 40, 10):
        table.append(*range(start, start + 10))
    states.keep("loaded")
    table.update(1, 11, 21, value=2.0)
    states.keep("updated")
    table.append(*range(40, 50))
    states.keep("appended")
    table.delete(3, 43)
    states.keep("deleted")
    return states
