"""All mutations."""

from typing import Final

from mutations.deletes import DELETES
from mutations.protocol import PROTOCOL
from mutations.rows import ROWS
from mutations.steps import STEPS

__all__ = ["MUTATIONS"]

MUTATIONS: Final = (*DELETES, *STEPS, *ROWS, *PROTOCOL)
