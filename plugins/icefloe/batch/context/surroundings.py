"""The surroundings of a run: stores and tables that it opens by name, and names that nothing else has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.iceberg.table import Table
from icefloe.shuffle.map_output import new_attempt
from icefloe.storage.location import StoreOpener, open_store

__all__ = ["Surroundings"]


class TableLoader(Protocol):
    """Loads tables as `load_table` does."""

    def __call__(
        self,
        catalog: str | Mapping[str, str],
        table: str,
        *,
        properties: Mapping[str, str] | None = None,
        allowed_locations: Sequence[str] = (),
    ) -> Table:
        """The table as its catalog has it now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Everything outside of a process that decides what its run does. It travels to tasks inside closures.

    A run takes nothing else from outside, so a simulation that replaces these four decides every step of a run. Times
    in documents are for people: no decision depends on the clock of a machine.

    Attributes:
        open_store: opens the stores of checkpoint, shuffle and sink.
        load_table: loads the table from its catalog.
        new_name: returns a name that no other process has, on any machine.
        new_key: returns the key of a batch's row hashes, which nobody can know before.
    """

    open_store: StoreOpener = open_store
    load_table: TableLoader = load_table
    new_name: Callable[[], str] = new_attempt
    new_key: Callable[[], int] = RowHashes.new_key
