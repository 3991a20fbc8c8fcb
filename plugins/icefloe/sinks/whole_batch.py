"""A batch of the files sink that is whole already when its tasks deliver it again.

The manifest of a batch exists before the checkpoint says that the batch is done. If a run is killed in between, the
next run delivers again. If its shuffle folder was lost and `memory_bytes` has changed, it cuts the same changes into
other parts. Readers trust the manifest, so the manifest and its files stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.sinks.manifest import BatchSummary, CommitMessage, Manifest, Part, Written, batch_prefix, parts_of, slot_of
from icefloe.sinks.same_rows import holds_same_rows
from icefloe.storage.keys import join_url
from icefloe.storage.store import Store

__all__ = ["GivenUpBatchError"]


class PathInUseError(TerminalError):
    """The sink's path holds a batch of the same number with other changes, which would be overwritten."""

    url: str
    batch_number: int


class GivenUpBatchError(TransientError):
    """The batch was ended without changes, and the checkpoint may not say so yet; another try finds out."""

    url: str
    batch_number: int


class MixedPartsError(TerminalError):
    """Files of a whole batch are gone or replaced, and its tasks no longer make them."""

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeBatch:
    """A batch whose manifest exists.

    Attributes:
        store: the sink's path.
    """

    store: Store
    manifest: Manifest

    def kept_part(self, slots: Sequence[str], files: Sequence[Path]) -> Written:
        """The files that a task keeps instead of its own; files of its part that are damaged are written again.

        A task whose rows are cut differently than in the manifest has no part here: the result names no files.

        Args:
            slots: the places of the task's files.
            files: on local disk, with the task's rows.

        Raises:
            TransientError: the store did not answer.
        """
        nothing = Written(size_bytes=0, details={"names": [], "sizes": []})
        part = self._part_of(slots, files)
        if part is None:
            return nothing
        keys = [f"{self._prefix}/{name}" for name in part.names]
        if sum(self._sizes(keys)) != part.size_bytes:
            self._mend(part, keys, files)
        sizes = self._sizes(keys)
        # As many rows in the same places, but other rows: this run cuts the changes elsewhere.
        if sum(sizes) != part.size_bytes or not all(map(partial(holds_same_rows, self.store), keys, files)):
            return nothing
        return Written(size_bytes=part.size_bytes, details={"names": list(part.names), "sizes": sizes})

    def _part_of(self, slots: Sequence[str], files: Sequence[Path]) -> Part | None:
        """The part in the places of a task's files, if it has as many rows; None: the rows are in other parts."""
        for part in self.manifest.parts:
            if [slot_of(name) for name in part.names] == list(slots):
                rows = sum(pq.read_metadata(file).num_rows for file in files)
                return part if part.rows == rows else None
        return None

    def _mend(self, part: Part, keys: Sequence[str], files: Sequence[Path]) -> None:
        """Write the damaged files of a part again, as nobody else will, if they are as the manifest says.

        Nothing else replaces a file. Readers have the manifest, so no other files may come in their place.
        """
        if sum(file.stat().st_size for file in files) != part.size_bytes:
            return
        for key, file in zip(keys, files, strict=True):
            if not (self.store.create(key, file) or holds_same_rows(self.store, key, file)):
                self.store.put(key, file)

    def _sizes(self, keys: Sequence[str]) -> list[int]:
        return [self.store.size(key) or 0 for key in keys]

    def require(self, summary: BatchSummary, messages: Sequence[CommitMessage]) -> None:
        """Check that the manifest is of these changes, and that its files exist.

        Raises:
            PathInUseError: the manifest is of other changes.
            GivenUpBatchError: the manifest is of a batch that was ended without changes.
            MixedPartsError: files that it names are missing, cut or replaced.
        """
        if self.manifest.batch != summary:
            raise self.in_use()
        sizes = {each.key.removeprefix(f"{self._prefix}/"): each.size_bytes for each in self.store.list(self._prefix)}
        replaced = [part for part in parts_of(messages) if part.names and part not in self.manifest.parts]
        damaged = [part for part in self.manifest.parts if not _is_whole(part, sizes)]
        if replaced or damaged:
            raise MixedPartsError(
                f"{self.url} holds this whole batch in other parts than this run makes, and "
                f"{(*replaced, *damaged)[0].names[0]} there differs from the manifest: delete everything below "
                f"{self.url} and run again; the same changes are delivered once more",
                url=self.url,
            )

    def in_use(self) -> IcefloeError:
        """The error that the batch holds other changes, or that it was ended without any."""
        batch = self.manifest.batch
        if batch.steps == 0 and batch.after_snapshot_id == batch.up_to_snapshot_id:
            return GivenUpBatchError(
                f"{self.url} holds batch {batch.batch_number} of pipeline {batch.pipeline} without changes: it was "
                "abandoned or moved the cursor, and this run came too late; run again to go on with the next batch",
                url=self.url,
                batch_number=batch.batch_number,
            )
        return PathInUseError(
            f"{self.url} already holds a whole batch with other changes, of pipeline {batch.pipeline} for table "
            f"{batch.table} up to snapshot {batch.up_to_snapshot_id}; give each pipeline, and each new start of one, a "
            "sink.path of its own",
            url=self.url,
            batch_number=batch.batch_number,
        )

    @property
    def url(self) -> str:
        """URL of the batch's folder."""
        return join_url(self.store.url, self._prefix)

    @property
    def _prefix(self) -> str:
        return batch_prefix(self.manifest.batch.batch_number)


def _is_whole(part: Part, sizes: dict[str, int]) -> bool:
    return all(name in sizes for name in part.names) and sum(sizes[name] for name in part.names) == part.size_bytes
