"""From the files of a checkpoint's batches to the checkpoint, wherever it is."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from icefloe.batch.context.folder_marker import MARKER, FolderMarker
from icefloe.batch.sweep.shuffle_listing import Folder
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.record_keys import backfill_prefix
from icefloe.errors import TerminalError
from icefloe.pipeline.environment import expand, has_reference
from icefloe.pipeline.url import url_below
from icefloe.storage.keys import join_url
from icefloe.storage.store import Store

OpenPlace: TypeAlias = Callable[[str], Store]
"""Opens the store at a URL, with the credentials of storage and checkpoint."""


class CheckpointGoneError(TerminalError):
    """No checkpoint is at the place that the files of its batches name. Fact: ``url`` of the files."""

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCheckpoint:
    """A checkpoint whose id was compared with that of the files.

    Attributes:
        url: of the checkpoint.
        backfill_id: the backfill that it is of; None for the pipeline itself.
        is_named: false if nothing but the name of the pipeline leads to it.
        pipeline: name of the pipeline.
        changes_url: URL of the folder where its batches are staged, ``${ENV}`` unexpanded; None: the usual place.
    """

    url: str
    checkpoint: Checkpoint
    backfill_id: str | None = None
    is_named: bool = True
    pipeline: str
    changes_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinePlaces:
    """The places where a checkpoint of a pipeline may be: the usual one, and those in markers of its shuffle folders.

    Attributes:
        pipeline: its name.
        shuffle: the folder ``shuffle/``.
        storage_url: the storage that it is in.
        environ: resolves ``${ENV}`` in the URLs of checkpoints.
        coordination: table that coordinates the storage; None: it needs none.
    """

    pipeline: str
    shuffle: Store
    storage_url: str
    open_place: OpenPlace
    environ: Mapping[str, str]
    coordination: str | None = None

    def urls(self) -> set[str]:
        """URLs of the places.

        Raises:
            TerminalError: one needs a variable of the environment that is not set, or another table.
            IcefloeError: a marker cannot be read.
        """
        urls = {url_below(self.storage_url, "checkpoints", self.pipeline)}
        for key in [each.key for each in self.shuffle.list(self.pipeline) if each.key.endswith(f"/{MARKER}")]:
            folder = self.shuffle.child(key.removesuffix(f"/{MARKER}"))
            marker = FolderMarker.load(folder)
            if marker is not None:
                url = _named_url(marker, folder, self.open_place, self.environ, self.coordination)
                below = None if marker.backfill_id is None else f"/{backfill_prefix(marker.backfill_id)}"
                urls.add(url if below is None else url.removesuffix(below))
        return urls

    def has_backfill(self, backfill_id: str, checkpoint_id: str, urls: Iterable[str]) -> bool:
        """True if the checkpoint of a backfill is at one of some places, with the id that is asked for.

        Raises:
            IcefloeError: a checkpoint cannot be read.
        """
        below = (Checkpoint(self.open_place(url)).backfill(backfill_id) for url in urls)
        return any(_id_of(checkpoint) == checkpoint_id for checkpoint in below)


def find_checkpoint(
    folder: Folder,
    *,
    shuffle: Store,
    storage_url: str,
    open_place: OpenPlace,
    environ: Mapping[str, str],
    coordination: str | None = None,
) -> FoundCheckpoint:
    """The checkpoint of a folder, by the folder's marker.

    If the marker was lost, the checkpoint is looked for at the place that it has by default.
    The marker of a backfill that has ended keeps the place from before a move, because no run opens it again. So that
    backfill is looked for with its pipeline too.

    Raises:
        CheckpointGoneError: there is none with the id of the folder.
        TerminalError: its URL needs a variable of the environment that is not set, or its records are in a table that
            was not given.
        IcefloeError: it cannot be read.
    """
    marker = FolderMarker.load(shuffle.child(folder.key))
    usual_url = url_below(storage_url, "checkpoints", folder.pipeline)
    if marker is not None:
        url = _named_url(marker, shuffle.child(folder.key), open_place, environ, coordination)
        places = PipelinePlaces(
            pipeline=folder.pipeline,
            shuffle=shuffle,
            storage_url=storage_url,
            open_place=open_place,
            environ=environ,
            coordination=coordination,
        )
        candidates = _marked(marker, url, places)
    else:
        url, candidates = usual_url, _usual(usual_url, folder.pipeline, open_place)
    for candidate in candidates:
        if _id_of(candidate.checkpoint) == folder.checkpoint_id:
            return candidate
    folder_url = join_url(shuffle.url, folder.key)
    raise CheckpointGoneError(
        f"the files below {folder_url} belong to checkpoint {folder.checkpoint_id} of pipeline {folder.pipeline}, "
        f"which is not at {url}: they are left alone; if it was moved, run the pipeline once; if it is gone for good, "
        "sweep with --forgotten",
        url=folder_url,
    )


def _named_url(
    marker: FolderMarker, folder: Store, open_place: OpenPlace, environ: Mapping[str, str], coordination: str | None
) -> str:
    """The place of a checkpoint; stops if its records are in another table than the one that is looked into."""
    named = None if marker.coordination is None else str(expand(marker.coordination, environ)).removesuffix("/")
    if named is not None and named != (coordination or "").removesuffix("/"):
        raise TerminalError(
            f"the files below {folder.url} are coordinated by {named}: they are left alone; sweep with --coordination "
            f"{named}",
            url=folder.url,
        )
    url = str(expand(marker.checkpoint_url, environ))
    if has_reference(url):
        raise TerminalError(
            f"the files below {folder.url} belong to a checkpoint at {url}, and that variable is not set here: they "
            f"are left alone; give the command the environment of the tasks of {marker.pipeline}",
            url=folder.url,
        )
    table = marker.table and (open_place(url) if url.startswith("dynamodb://") else folder).created_in
    if table != marker.table:
        raise TerminalError(
            f"the records of the files below {folder.url} are in {marker.table}: they are left alone; sweep with the "
            f"dynamodb_region and dynamodb_endpoint of that table, not of {table}",
            url=folder.url,
        )
    return url


def _usual(url: str, pipeline: str, open_place: OpenPlace) -> Iterator[FoundCheckpoint]:
    """The checkpoint of a pipeline and those of its backfills."""
    store = open_place(url)
    checkpoint = Checkpoint(store)
    yield FoundCheckpoint(url=url, checkpoint=checkpoint, pipeline=pipeline)
    for backfill_id in sorted({each.key.split("/")[1] for each in store.list("backfills")}):
        found = checkpoint.backfill(backfill_id)
        yield FoundCheckpoint(url=found.url, checkpoint=found, backfill_id=backfill_id, pipeline=pipeline)


def _marked(marker: FolderMarker, url: str, places: PipelinePlaces) -> Iterator[FoundCheckpoint]:
    """The checkpoint that a marker names, and the same backfill wherever its pipeline may be now."""

    def at(place_url: str, checkpoint: Checkpoint) -> FoundCheckpoint:
        return FoundCheckpoint(
            url=place_url,
            checkpoint=checkpoint,
            backfill_id=marker.backfill_id,
            pipeline=places.pipeline,
            changes_url=marker.changes_url,
        )

    yield at(url, Checkpoint(places.open_place(url)))
    if marker.backfill_id is not None:
        for pipeline_url in places.urls():
            found = Checkpoint(places.open_place(pipeline_url)).backfill(marker.backfill_id)
            yield at(url_below(pipeline_url, backfill_prefix(marker.backfill_id)), found)


def _id_of(checkpoint: Checkpoint) -> str | None:
    owner = checkpoint.owner()
    return checkpoint.look().checkpoint_id if owner is None else owner.checkpoint_id
