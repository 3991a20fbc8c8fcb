"""The situations in which runs are stopped.

Each place gets a checkpoint, a storage and a sink of its own, over a table whose commits were made before.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.place import Place
from faults.stores import Stores
from support.pipelines.divisions import with_divisions
from support.tables.table_states import ShownTable, TableStates

__all__ = ["SCENARIOS", "Scenario"]


def _is_odd(number: int) -> bool:
    """The same in each attempt, as sizes of partitions are.

    Parts stay when somebody deletes the folder of a batch. With other divisions they would be parts of other ranges,
    which the audit finds, so that the batch is not delivered.
    """
    return number % 2 == 1


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A run that is late, and what happens before it and while it is stopped.

    Attributes:
        name: of its pipelines.
        shown: states of the table: one for each batch that is delivered before, that of the late run, and that of the
            next batch.
        keys: of the pipeline file.
        is_backfill: whether the late run and the others deliver the whole history up to the state of the late run.
        is_damaged: whether the late run finds its batch open, with a damaged map output.
        has_neighbour: whether a second pipeline of the same name has the same storage.
        is_divided: whether map tasks have a row group each, and divide some of their reduce partitions.
    """

    name: str
    shown: Sequence[str]
    keys: dict[str, Any] = field(default_factory=dict)
    is_backfill: bool = False
    is_damaged: bool = False
    has_neighbour: bool = False
    is_divided: bool = False

    def place(self, folder: Path, states: TableStates, stores: Stores | None = None) -> Place:
        """Everything in place for the late run."""
        folder.mkdir()
        stores = stores or Stores(folder=folder, url=f"file://{folder}")
        place = self._place(folder, states.shown(folder, self.shown[0]), stores)
        place.write_pipelines()
        for state in self.shown[:-2]:
            place.shown.at(state)
            place.deliver_all()
        place.shown.at(self.shown[-2])
        if self.is_damaged:
            place.damage()
        return place

    def in_force(self) -> AbstractContextManager[None]:
        """Divides row groups and reduce partitions of all runs as long as the context lasts, if the scenario does."""
        return with_divisions(_is_odd) if self.is_divided else nullcontext()

    def _place(self, folder: Path, shown: ShownTable, stores: Stores) -> Place:
        return Place(scenario=self, folder=folder, shown=shown, stores=stores)


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(name="load", shown=["loaded", "updated"]),
        Scenario(name="parts", shown=["loaded", "loaded", "updated"], keys={"max_bytes_per_batch": 1}),
        Scenario(name="from_now", shown=["loaded", "updated"], keys={"initial_load": "from_now"}),
        Scenario(name="changes", shown=["loaded", "updated", "appended"]),
        Scenario(name="net", shown=["loaded", "deleted", "compacted"], keys={"changes": "net"}),
        Scenario(name="moves", shown=["loaded", "updated", "deleted"], keys={"columns": ["value", "word"]}),
        Scenario(
            name="divided",
            shown=["loaded", "deleted", "compacted"],
            keys={"changes": "net", "columns": ["value", "word"]},
            is_divided=True,
        ),
        Scenario(name="inserts", shown=["updated", "appended", "deleted"]),
        Scenario(name="nothing", shown=["deleted", "compacted", "refilled"]),
        Scenario(name="reload", shown=["loaded", "expired", "last"], keys={"on_gap": "reload"}),
        Scenario(name="damaged", shown=["loaded", "updated", "appended"], is_damaged=True),
        Scenario(name="backfill", shown=["loaded", "updated", "updated"], is_backfill=True),
        Scenario(name="neighbours", shown=["loaded", "updated", "appended"], has_neighbour=True),
    )
}
