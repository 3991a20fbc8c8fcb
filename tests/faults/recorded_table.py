"""The table of all scenarios."""

import json
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
    loaded = table.table.metadata.snapshots[3].snapshot_id
    table.table.maintenance.expire_snapshots().by_id(loaded).commit()
    states.keep("expired")
    table.append(*range(50, 60))
    states.keep("last")
    states.go_back("deleted")
    _compact(table)
    states.keep("compacted")
    table.append(*range(60, 70))
    states.keep("refilled")
    table.append(3)
    states.keep("returned")
    return states


def _compact(table: Workspace) -> None:
    """PyIceberg writes no replace: a commit of nothing is made to say that it is one."""
    table.append()
    path = Path(table.table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata["snapshots"][-1]["summary"]["operation"] = "replace"
    path.write_text(json.dumps(metadata))
