"""The changes of batches that are committed, in the folder where they are kept."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from icefloe.batch.ends.shown_ends import show_end
from icefloe.changes.columns import change_schema
from icefloe.checkpoint.cursor import BatchOutcome
from icefloe.checkpoint.log import Checkpoint
from icefloe.errors import TerminalError
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import Manifest
from icefloe.storage.store import KeyMissingError


class UndeliverableBatchError(TerminalError):
    """A batch cannot be delivered again: it is not committed, or its files or its record are gone."""

    batch_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptChanges:
    """The changes that committed batches of a pipeline have left in a folder.

    Attributes:
        pipeline: whose batches they are, expanded.
        checkpoint: of the pipeline, or of the backfill.
        folder: the files sink, or the folder in which batches are staged.
        counted_folder: the folder in which readers of the sink count batches; None if there is none.
    """

    pipeline: Pipeline
    checkpoint: Checkpoint
    folder: ChangeFiles
    counted_folder: ChangeFiles | None

    def check(self, numbers: Sequence[int]) -> list[int]:
        """The batches among these that have changes for the sink; see `show_ends` for the others.

        Raises:
            UndeliverableBatchError: a batch is not committed, or is no longer staged.
        """
        return [number for number in numbers if self._has_changes(number)]

    def show_ends(self, numbers: Sequence[int]) -> list[int]:
        """Writes manifests that are missing of batches that `check` leaves out, if readers of the sink count batches.

        Those were abandoned or moved the cursor. Or they were delivered elsewhere before a reset, and are kept no more.

        Returns:
            The numbers of these batches.
        """
        folder = self.counted_folder
        if folder is None:
            return []
        commits = [commit for number in numbers if (commit := self.checkpoint.committed(number)) is not None]
        missing = [each for each in commits if folder.whole(each.batch_number) is None]
        shown = [each for each in missing if not self._has_changes(each.batch_number)]
        for commit in shown:
            show_end(commit, folder, pipeline=self.pipeline.name, table=self.pipeline.table)
        return [commit.batch_number for commit in shown]

    def manifest(self, number: int) -> Manifest:
        """The manifest of a batch.

        Raises:
            UndeliverableBatchError: its files are gone.
        """
        found = self._kept(number)
        if found is None:
            raise self._gone(number)
        return found

    def schema(self, manifest: Manifest) -> pa.Schema:
        """The schema of the rows of a batch, from its first file; only the change columns if it has no file."""
        if not manifest.parts:
            return change_schema(pa.schema([]), with_batch=True)
        return self.folder.part_schema(manifest.batch.batch_number, manifest.parts[0])

    def _has_changes(self, number: int) -> bool:
        commit = self.checkpoint.committed(number)
        if commit is None:
            raise UndeliverableBatchError(
                f"batch {number} of {self.pipeline.name} is not committed, so it cannot be delivered once more; "
                f"icefloe batches {self.pipeline.name} lists those that are",
                batch_number=number,
            )
        if commit.outcome is not BatchOutcome.DELIVERED:
            return False
        # A reset gives an empty manifest to a batch that was delivered elsewhere.
        manifest = self._kept(number)
        if manifest is not None and manifest.batch.steps == commit.steps:
            return True
        if self.counted_folder is not None and self._is_before_reset(number):
            return False
        raise self._gone(number)

    def _kept(self, number: int) -> Manifest | None:
        """The manifest of a batch where its changes are kept; None if it is no longer there."""
        try:
            return self.folder.manifest(number)
        except KeyMissingError:
            return None

    def _gone(self, number: int) -> UndeliverableBatchError:
        return UndeliverableBatchError(
            f"batch {number} of {self.pipeline.name} is committed, but its files are no longer in "
            f"{self.folder.url}: set changelog.keep to keep them longer; deliver a backfill of its range to another "
            "sink, or set the cursor back to before it",
            url=self.folder.url,
            batch_number=number,
        )

    def _is_before_reset(self, number: int) -> bool:
        """True if readers drop the changes of a batch at a later one, because the pipeline was reset."""
        latest = self.checkpoint.latest_batch() or 0
        later = (self.checkpoint.committed(each) for each in range(number + 1, latest + 1))
        return any(each is not None and each.outcome is BatchOutcome.RESET for each in later)
