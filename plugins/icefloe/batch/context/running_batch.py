"""A batch that a run works on: its folder, its checkpoint and its sink."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.fenced_store import FencedStore, taken_back_if_over
from icefloe.batch.plan_document import Plan
from icefloe.batch.run_settings import RunSettings
from icefloe.checkpoint.log import Checkpoint
from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.file_io import FileGoneError
from icefloe.sinks.change_files import ChangeFiles
from icefloe.storage.requests import Requests

__all__ = ["RunningBatch"]


class BatchCommittedError(TerminalError):
    """Another run finished the batch, so this one is a zombie and stops."""

    batch_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBatch:
    """A batch, opened by a process of a run.

    Attributes:
        written: the store of the folder, which remembers what this process wrote.
        folder_of_changes: to which tasks write changes; not where they are delivered.
        requests: to its stores.
    """

    folder: BatchFolder
    written: FencedStore
    checkpoint: Checkpoint
    folder_of_changes: ChangeFiles
    settings: RunSettings
    requests: Requests

    @property
    def plan(self) -> Plan:
        """See `BatchFolder`."""
        return self.folder.plan

    def is_over(self) -> bool:
        """True if the batch is committed. Then its folder is to be empty."""
        return self.checkpoint.committed(self.plan.batch_number) is not None

    def taken_back(self) -> AbstractContextManager[None]:
        """Takes back the block's writes to the batch's folder if the batch is over when the block ends."""
        return taken_back_if_over(self.written, self.is_over, self.folder.machine)

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """`taken_back`, after `refuse_committed`."""
        with self.taken_back():
            self.refuse_committed()
            yield

    @contextmanager
    def naming_the_way_out(self) -> Iterator[None]:
        """Adds the command that gives the batch up to the sentence that says which file of the table is gone.

        Code that opens a file cannot know of a batch: `read_changes` has none.
        """
        try:
            yield
        except FileGoneError as error:
            number, backfill_id = self.plan.batch_number, self.plan.backfill_id
            which = "" if backfill_id is None else f" --backfill {backfill_id}"
            raise error.restated(
                f"{error.sentence}; batch {number} is open and needs that file: `icefloe abandon {self.plan.pipeline}"
                f"{which}` gives the batch up, and the next run plans by the table as it then is",
                batch_number=number,
            ) from error

    def refuse_committed(self) -> None:
        """Raises `BatchCommittedError` if the batch is over."""
        if self.is_over():
            number = self.plan.batch_number
            raise BatchCommittedError(
                f"batch {number} of {self.plan.pipeline} is committed already: another run finished it, this one stops",
                batch_number=number,
            )
