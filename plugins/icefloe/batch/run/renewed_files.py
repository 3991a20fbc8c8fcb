"""Access to the table's files that is renewed when the credentials of a catalog have expired."""

import logging
from collections.abc import Mapping
from types import TracebackType

from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.running_batch import RunningBatch
from icefloe.batch.context.table_files import table_files
from icefloe.batch.table_access import TableAccess
from icefloe.iceberg.catalog.file_io import FileRefusedError, FileUnansweredError

logger = logging.getLogger(__name__)


class RenewedFiles:
    """A context in which a phase runs, entered again as long as new credentials bring the phase forward.

    Credentials that the catalog vends may expire before the phase ends, and its tasks are then refused files. They are
    renewed here, and not by the tasks, because executors need not reach the catalog. The catalog is asked when a task
    first needs the files: ranges need none, unless a map output has to be made again.

        files = RenewedFiles(running, reference, environ)
        while files.are_due:
            with files:
                ... files.access ...

    Args:
        running: the batch in this process.
        reference: reference to the batch.
        environ: environment of this process.
    """

    def __init__(self, running: RunningBatch, reference: BatchReference, environ: Mapping[str, str]) -> None:
        self._running = running
        self._reference = reference
        self._environ = environ
        self._access: TableAccess | None = None
        self._outputs_before = -1
        self.are_due = True

    @property
    def access(self) -> TableAccess:
        """Access to the files, by the newest credentials."""
        if self._access is None:
            self._access = self._fresh()
        return self._access

    def __enter__(self) -> None:
        self.are_due = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """True, which swallows the error, if the table's files were refused and another try gets further."""
        if not isinstance(error, FileRefusedError | FileUnansweredError):
            return False
        access, outputs = self._fresh(), self._outputs()
        # The same credentials, or no task more than before: expired credentials were not the cause.
        if access == self._access or outputs == self._outputs_before:
            return False
        logger.info("the phase goes on with new credentials, because the storage gave no files: %s", error)
        self._access, self._outputs_before, self.are_due = access, outputs, True
        return True

    def _fresh(self) -> TableAccess:
        return table_files(self._running.plan, self._reference, self._environ)

    def _outputs(self) -> int:
        folder = self._running.folder
        return folder.plan.num_map_tasks - len(folder.map_outputs.missing(range(folder.plan.num_map_tasks)))
