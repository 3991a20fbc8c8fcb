"""All mutations."""

from typing import Final

from mutations.batches import BATCHES
from mutations.commands import COMMANDS
from mutations.sinks import SINKS
from mutations.stores import STORES
from mutations.tables import TABLES

__all__ = ["MUTATIONS"]

MUTATIONS: Final = (*TABLES, *BATCHES, *STORES, *SINKS, *COMMANDS)
