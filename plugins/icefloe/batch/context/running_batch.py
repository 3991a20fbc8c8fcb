"""A batch that a run works on, and writes of a run that may be a zombie: taken back if the batch is over."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from icefloe.batch.context.batch_folder import BatchFolder
from icefloe.batch.phase_record import PhaseTally, TrackedApplication, recorded_phase
from icefloe.batch.plan_document import Plan, begun_key
from icefloe.batch.run_settings import RunSettings
from icefloe.checkpoint.log import Checkpoint
from icefloe.errors import IcefloeError, TerminalError
from icefloe.iceberg.catalog.file_io import FileGoneError
from icefloe.node.machine import Machine
from icefloe.sinks.change_files import ChangeFiles
from icefloe.storage.requests import Requests
from icefloe.storage.store import ChildStore, Store

__all__ = ["RunningBatch"]

logger = logging.getLogger(__name__)


class FencedStore(ChildStore):
    """The folder of a batch, which remembers the keys that were written through it."""

    def __init__(self, parent: Store, folder: str) -> None:
        super().__init__(parent, folder)
        self._written: dict[str, None] = {}

    def put(self, key: str, data: bytes | Path) -> None:
        """See `Store`."""
        # Remembered first: a put that fails may have stored the value anyway.
        self._written[key] = None
        super().put(key, data)

    def create(self, key: str, data: bytes | Path) -> bool:
        """See `Store`."""
        self._written[key] = None
        return super().create(key, data)

    def take_back(self) -> None:
        """Deletes everything that was written."""
        keys, self._written = list(self._written), {}
        if keys:
            logger.info("the batch is over: %d objects that came too late are taken back from %s", len(keys), self.url)
            self.delete(keys)

    @contextmanager
    def taken_back_if_over(self, is_over: Callable[[], bool], machine: Machine | None = None) -> Iterator[None]:
        """Checks the batch when the block ends, in whatever way, and takes the block's writes back if it is over.

        A check before the first write proves nothing: the process may stop after it until others have finished the
        batch and cleaned up. A batch that is over needs nothing from its folder, so a value of another attempt may go
        too.
        """
        try:
            yield
        finally:
            try:
                #   looks: open | stopped; others finish the batch and clean up | goes on, writes | looks: over
                # Only the look after the last write can see that.
                if is_over():
                    if machine is not None:
                        machine.take_back()
                    self.take_back()
            except IcefloeError as error:
                logger.warning("a late run may have left files in %s, and they were not removed: %s", self.url, error)


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

    @property
    def may_be_seen(self) -> bool:
        """True if readers may see a change of the batch."""
        if self.settings.delivers:
            return self.folder.store.size(begun_key()) is not None
        return self.folder_of_changes.whole(self.plan.batch_number) is not None

    def taken_back(self) -> AbstractContextManager[None]:
        """Takes back the block's writes to the batch's folder if the batch is over when the block ends."""
        return self.written.taken_back_if_over(self.is_over, self.folder.machine)

    @contextmanager
    def fenced(self) -> Iterator[None]:
        """`taken_back`, after `refuse_committed`."""
        with self.taken_back():
            self.refuse_committed()
            yield

    @contextmanager
    def recording(self, phase: str, application: TrackedApplication | None = None) -> Iterator[PhaseTally]:
        """`fenced`, with a record of an attempt of a phase, to which the block's requests are added."""
        with (
            self._naming_the_way_out(),
            self.fenced(),
            recorded_phase(self.written, phase, application=application) as tally,
            tally.counting(self.requests),
        ):
            yield tally

    @contextmanager
    def _naming_the_way_out(self) -> Iterator[None]:
        """Adds the command that gives the batch up to the sentence that says which file of the table is gone.

        Code that opens a file cannot know of a batch: `read_changes` has none.
        """
        try:
            yield
        except FileGoneError as error:
            number = self.plan.batch_number
            raise error.restated(
                f"{error.sentence}; batch {number} is open and needs that file: `{self.plan.giving_up}` "
                "gives the batch up, and the next run plans by the table as it then is",
                batch_number=number,
            ) from error

    def refuse_committed(self) -> None:
        """Raises if the batch is over: another run finished it, so this one is a zombie and stops."""
        if self.is_over():
            number = self.plan.batch_number
            raise TerminalError(
                f"batch {number} of {self.plan.pipeline} is committed already: another run finished it, this one stops",
                batch_number=number,
            )
