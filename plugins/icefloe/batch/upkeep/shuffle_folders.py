"""The shuffle folders of a storage, and the batches that a lost checkpoint staged."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from icefloe.batch.context.batch_folder import MARKER, FolderMarker
from icefloe.batch.upkeep.found_checkpoint import (
    Counted,
    Folder,
    FoundCheckpoint,
    OpenPlace,
    find_checkpoint,
    id_of,
)
from icefloe.batch.upkeep.leftover import BatchState, BatchStates, EndedMarker, Leftover, Reason
from icefloe.iceberg.history.pins import PinNames
from icefloe.pipeline.url import url_below
from icefloe.sinks.manifest import CLAIM, load_claim
from icefloe.storage.store import Store, StoredObject
from icefloe.units import natural


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleFolders:
    """The folders below ``shuffle/`` of a storage, judged by their checkpoints.

    Attributes:
        environ: resolves ``${ENV}`` in the URL of a checkpoint.
        cutoff: a time of the store's clock; earlier files are old.
        coordination: table that coordinates the storage; None: it needs none.
        takes_forgotten: True if old files whose checkpoint is gone may go.
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
        """The checkpoint of an ended backfill whose marker names the place from before a move."""
        marker = FolderMarker.load(self.shuffle.child(folder.key))
        for pipeline in found:
            if marker is not None and marker.backfill_id is not None and pipeline.backfill_id is None:
                checkpoint = pipeline.checkpoint.backfill(marker.backfill_id)
                if id_of(checkpoint) == folder.checkpoint_id:
                    return replace(pipeline, url=checkpoint.url, checkpoint=checkpoint, backfill_id=marker.backfill_id)
        return None

    def leftovers(self, folder: Folder, found: FoundCheckpoint, names: Mapping[str, Counted]) -> Iterator[Leftover]:
        """The leftovers in a folder. Look at the checkpoint after the files were listed.

        Args:
            names: the listed files, by name in the folder.
        """
        states = BatchStates.of(found.checkpoint)
        for name, counted in sorted(names.items()):
            number = None if counted.is_file else natural(name)
            state = BatchState.UNKNOWN if number is None else states.state(number)
            if state is BatchState.ENDED:
                yield self._all(folder, name, counted, number, found.backfill_id)
            elif state is BatchState.UNKNOWN and name != MARKER:
                yield from self._old(folder, name, counted, number, found.backfill_id, states)
        # A backfill delivers one batch. Once it has ended, nobody looks for its checkpoint again.
        if found.backfill_id is not None and MARKER in names and states.has_ended:
            yield EndedMarker(
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
        self, folder: Folder, name: str, counted: Counted, number: int | None, backfill_id: str | None
    ) -> Leftover:
        return Leftover(
            store=self.shuffle,
            pipeline=folder.pipeline,
            backfill_id=backfill_id,
            batch_number=number,
            reason=Reason.ENDED,
            objects=counted.objects,
            size_bytes=counted.size_bytes,
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
        """Old files of an unknown batch; a batch may be opened under the number at any moment."""
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


_BACKFILLS = "_backfills"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenFiles:
    """The files of one checkpoint that is gone, as they were listed."""

    folders: ShuffleFolders
    folder: Folder
    names: Mapping[str, Counted]

    def leftovers(self) -> Iterator[Leftover]:
        """All files if nothing was written since the cutoff, otherwise none.

        Staged changes of a backfill have a checkpoint of their own, and go with its shuffle folder.
        """
        marker = self._marker
        backfill_id = None if marker is None else marker.backfill_id
        staged = _Staged(
            store=self.folders.open_place(url_below(self.folders.storage_url, "staged")),
            key=self.folder.pipeline + ("" if backfill_id is None else f"/{_BACKFILLS}/{backfill_id}"),
            checkpoint_id=self.folder.checkpoint_id,
        )
        counted = Counted()
        if staged.is_claimed():
            for stored in filter(staged.has, staged.store.list(staged.key)):
                counted.add(stored, self.folders.cutoff, is_file=False)
        if any(each.old_objects < each.objects for each in (counted, *self.names.values())):
            return
        if counted.objects:
            yield Leftover(
                store=staged.store,
                pipeline=self.folder.pipeline,
                backfill_id=backfill_id,
                reason=Reason.FORGOTTEN,
                objects=counted.objects,
                size_bytes=counted.size_bytes,
                folder=staged.key,
                is_due=lambda stored: self.folders.is_old(stored) and staged.has(stored),
                is_opened=lambda: not staged.is_claimed(),
                # Without the claim nobody knows whose the rest is.
                last=f"{staged.key}/{CLAIM}",
            )
        # Last, because its name leads to the staged batches.
        yield Leftover(
            store=self.folders.shuffle,
            pipeline=self.folder.pipeline,
            backfill_id=backfill_id,
            reason=Reason.FORGOTTEN,
            objects=sum(each.objects for each in self.names.values()),
            size_bytes=sum(each.size_bytes for each in self.names.values()),
            folder=self.folder.key,
            is_due=self.folders.is_old,
            # Without its marker nobody knows where the checkpoint of the rest was.
            last=f"{self.folder.key}/{MARKER}",
        )

    def notes(self) -> Iterator[str]:
        """Things of the pipeline that a sweep leaves to people."""
        branch = PinNames.of(self.folder.pipeline, self.folder.checkpoint_id).branch
        yield (
            f"if pipeline {self.folder.pipeline} had pin: true, its table keeps snapshots by branch {branch} and tags "
            f"{branch}_...: drop them"
        )
        marker = self._marker
        if marker is not None and marker.changes_url is not None:
            yield (
                f"the changelog {marker.changes_url} of pipeline {self.folder.pipeline} stays: delete it if nobody "
                "reads it any more"
            )

    @property
    def _marker(self) -> FolderMarker | None:
        return FolderMarker.load(self.folders.shuffle.child(self.folder.key))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Staged:
    """Staged batches, below ``staged/``."""

    store: Store
    key: str
    checkpoint_id: str

    def is_claimed(self) -> bool:
        """True if the folder belongs to this checkpoint, not to one that was made again."""
        claim = load_claim(self.store.child(self.key))
        return claim is not None and claim.owner == self.checkpoint_id

    def has(self, stored: StoredObject) -> bool:
        return not stored.key.startswith(f"{self.key}/{_BACKFILLS}/")
