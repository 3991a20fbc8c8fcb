"""The only commits to a table: of branches and tags that keep snapshots from expiring."""

import logging
import os
import time
from collections.abc import Callable
from typing import Final

from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
)
from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import ManageSnapshots

from icefloe.errors import TerminalError, TransientError
from icefloe.iceberg.catalog.catalog_errors import catalog_errors
from icefloe.iceberg.table import table_name
from icefloe.patience import Patience

__all__ = ["EVER_MS", "commit_refs"]

logger = logging.getLogger(__name__)

EVER_MS: Final = 2**63 - 1
"""Age that no branch or tag reaches, whatever the table's properties say."""
_PAUSES_SECONDS: Final = (0.1, 0.2, 0.4, 0.8, 1.6)


def commit_refs(table: Table, change: Callable[[Table], ManageSnapshots | None]) -> Table:
    """Changes branches and tags in one commit, and returns the table after it.

    If another commit comes in between, the table is loaded and the change made again.
    """
    name, catalog = table_name(table), table.catalog
    patience = Patience.of(os.environ, place=f"catalog {catalog.name!r}: branches of {name}")

    def commit_once() -> Table | str | None:
        # Loaded by the catalog itself: a table of `load_table` opens files in few places, and writes none.
        loaded = catalog.load_table(table.name())
        changed = change(loaded)
        try:
            if changed is not None:
                changed.commit()
        except (CommitFailedException, CommitStateUnknownException) as cause:
            logger.info("branches and tags of table %s are not set yet: %s", name, type(cause).__name__)
            return None
        except PermissionError:
            return f"the metadata folder of table {name} may not be written"
        except NotImplementedError:
            return f"catalog {catalog.name!r} takes no commits"
        return loaded

    for pause_seconds in (0.0, *_PAUSES_SECONDS):
        time.sleep(pause_seconds)
        try:
            with catalog_errors(catalog.name, f"set branches and tags of table {name}"):
                committed = patience.wait_for(commit_once, "commit")
        except TerminalError as cause:
            raise _refused(catalog.name, name, cause.sentence) from cause
        if isinstance(committed, str):
            raise _refused(catalog.name, name, committed)
        if committed is not None:
            return committed
    raise TransientError(
        f"other commits to table {name} came first {len(_PAUSES_SECONDS) + 1} times in a row, so that its snapshots "
        "could not be pinned; try again"
    )


def _refused(catalog: str, table: str, reason: str) -> TerminalError:
    return TerminalError(
        f"{reason}; pin: true needs the right to commit to table {table}: to update it in catalog {catalog!r}, and if "
        "that is no REST catalog, to write its metadata folder; grant it, or remove pin"
    )
