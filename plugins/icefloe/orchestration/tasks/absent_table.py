"""A table that a pipeline has read and that its catalog does not have now: looked for again, but not for ever."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from icefloe.checkpoint.log import Checkpoint
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.iceberg.catalog.catalogs import UnknownTableError
from icefloe.pipeline.model import Pipeline

logger = logging.getLogger(__name__)

_LONGEST: Final = timedelta(minutes=15)
"""Three runs that fail by themselves pause a DAG, so a restart of a catalog or of a proxy must be shorter than one."""


class AbsentTableError(TransientError):
    """The catalog has no such table, but it had when the pipeline opened its last batch."""

    table: str


@contextmanager
def absent_table_is_transient(pipeline: Pipeline, open_checkpoint: Callable[[], Checkpoint]) -> Iterator[None]:
    """Lets the caller look again for a missing table that the pipeline has read.

    The catalog need not be the one that said so: a proxy under maintenance, or a catalog whose database is being
    restored, answers 404 to everything.

    Args:
        pipeline: the pipeline.
        open_checkpoint: opens its checkpoint; called only if the table is missing.

    Raises:
        AbsentTableError: the checkpoint has a batch of this table.
        UnknownTableError: it has none.
    """
    try:
        yield
    except UnknownTableError as error:
        if not _has_batch(pipeline, open_checkpoint):
            raise
        raise AbsentTableError(
            f"{error.sentence}; {pipeline.name} has read this table, so it is looked for again: a catalog or proxy "
            "under maintenance may answer so. If the table is gone or has another name, pause the DAG",
            table=pipeline.table,
        ) from error


class AbsencePatience:
    """Time for which a trigger looks again for a table that is absent at each look."""

    def __init__(self) -> None:
        self._since: datetime | None = None

    def note(self, error: TransientError | None) -> None:
        """Takes the error of a look; None: it went well.

        Raises:
            TerminalError: the table has been absent for too long.
        """
        if not isinstance(error, AbsentTableError):
            self._since = None
            return
        now = datetime.now(UTC)
        self._since = self._since or now
        if now - self._since >= _LONGEST:
            minutes = _LONGEST // timedelta(minutes=1)
            raise TerminalError(
                f"table {error.table} has been missing from its catalog for {minutes} minutes: bring it back, or "
                f"correct `table` of the pipeline ({error.sentence})",
                table=error.table,
            )


def _has_batch(pipeline: Pipeline, open_checkpoint: Callable[[], Checkpoint]) -> bool:
    try:
        view = open_checkpoint().look()
    except IcefloeError as error:
        logger.warning("nobody knows if %s has read its table before: %s", pipeline.name, error.sentence)
        return False
    has_any = view.cursor is not None or view.opened is not None
    return has_any and view.pipeline is not None and view.pipeline.table == pipeline.table
