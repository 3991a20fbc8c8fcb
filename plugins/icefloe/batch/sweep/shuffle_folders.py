"""The leftovers in the shuffle folder of one checkpoint."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from icefloe.batch.context.folder_marker import MARKER, FolderMarker
from icefloe.batch.sweep.batch_states import BatchState, BatchStates
from icefloe.batch.sweep.found_checkpoint import (
    FoundCheckpoint,
    OpenPlace,
    find_checkpoint,
    id_of,
)
from icefloe.batch.sweep.leftover import Leftover, Reason
from icefloe.batch.sweep.shuffle_listing import Counted, Folder
from icefloe.storage.store import Store, StoredObject
from icefloe.units import natural


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleFolders:
    """The folders below ``shuffle/`` of a storage, judged by their checkpoints.

    Attributes:
        shuffle: the folder ``shuffle/``.
        storage_url: the storage that it is in.
        environ: resolves ``${ENV}`` in the URL of a checkpoint.
        cutoff: a time of the store's clock; files that were written before it are old.
        coordination: table that coordinates the storage; None: it needs none.
        takes_forgotten: true if files whose checkpoint is gone may go when they are old.
    """

    shuffle: Store
    storage_url: str
    open_place: OpenPlace
    environ: Mapping[str, str]
    cutoff: datetime
    coordination: str | None = None
    takes_forgotten: bool = False

    def find(self, folder: Folder) -> FoundCheckpoint:
        """The checkpoint of a folder; see `find_checkpoint`."""
        return find_checkpoint(
            folder,
            shuffle=self.shuffle,
            storage_url=self.storage_url,
            open_place=self.open_place,
            environ=self.environ,
            coordination=self.coordination,
        )

    def moved_backfill(self, folder: Folder, found: Iterable[FoundCheckpoint]) -> FoundCheckpoint | None:
        """The checkpoint of a backfill that has ended, and whose marker names the place from before a move."""
        marker = FolderMarker.load(self.shuffle.child(folder.key))
        for pipeline in found:
            if marker is not None and marker.backfill_id is not None and pipeline.backfill_id is None:
                checkpoint = pipeline.checkpoint.backfill(marker.backfill_id)
                if id_of(checkpoint) == folder.checkpoint_id:
                    return replace(pipeline, url=checkpoint.url, checkpoint=checkpoint, backfill_id=marker.backfill_id)
        return None

    def leftovers(self, folder: Folder, found: FoundCheckpoint, names: Mapping[str, Counted]) -> Iterator[Leftover]:
        """The leftovers in a folder.

        Args:
            folder: the folder.
            found: its checkpoint, looked at after the files were listed.
            names: the files that were listed, by name in the folder.

        Raises:
            IcefloeError: the checkpoint cannot be read, or is damaged.
        """
        states = BatchStates.of(found.checkpoint)
        for name, counted in sorted(names.items()):
            number = None if counted.is_file else natural(name)
            state = BatchState.UNKNOWN if number is None else states.state(number)
            if state is BatchState.ENDED:
                yield self._all(folder, name, counted, Reason.ENDED, number, found.backfill_id)
            elif state is BatchState.UNKNOWN and name != MARKER:
                yield from self._old(folder, name, counted, number, found.backfill_id, states)
        # A backfill delivers one batch. Once it has ended, nobody looks for its checkpoint again.
        if found.backfill_id is not None and MARKER in names and states.has_ended:
            yield Leftover(
                store=self.shuffle,
                pipeline=folder.pipeline,
                backfill_id=found.backfill_id,
                batch_number=0,
                reason=Reason.ENDED,
                objects=1,
                size_bytes=names[MARKER].size_bytes,
                keys=(f"{folder.key}/{MARKER}",),
                # If it was abandoned, its range may be started again while an operator looks at the findings.
                is_opened=states.is_open_now,
            )

    def _all(
        self, folder: Folder, name: str, counted: Counted, reason: Reason, number: int | None, backfill_id: str | None
    ) -> Leftover:
        return Leftover(
            store=self.shuffle,
            pipeline=folder.pipeline,
            backfill_id=backfill_id,
            batch_number=number,
            reason=reason,
            objects=counted.objects,
            size_bytes=counted.size_bytes,
            is_due=self.is_old if reason is Reason.FORGOTTEN else lambda _: True,
            **_place(folder, name, counted),
        )

    def _old(
        self,
        folder: Folder,
        name: str,
        counted: Counted,
        number: int | None,
        backfill_id: str | None,
        states: BatchStates | None,
    ) -> Iterator[Leftover]:
        """The old files of a batch that is not known; a batch may be opened under the number at any moment."""
        if not counted.old_objects:
            return
        yield Leftover(
            store=self.shuffle,
            pipeline=folder.pipeline,
            backfill_id=backfill_id,
            batch_number=number,
            reason=Reason.OLD,
            objects=counted.old_objects,
            size_bytes=counted.old_bytes,
            is_due=self.is_old,
            is_opened=None if states is None or number is None else partial(states.is_opened_now, number),
            **_place(folder, name, counted),
        )

    def is_old(self, stored: StoredObject) -> bool:
        """True if a file was written before the cutoff."""
        return stored.modified < self.cutoff


def _place(folder: Folder, name: str, counted: Counted) -> dict[str, Any]:
    key = f"{folder.key}/{name}"
    return {"keys": (key,)} if counted.is_file else {"folder": key}
