"""The table that the documents of a checkpoint were created in, and a pipeline that names another one or opens none."""

import os
from collections.abc import Iterator
from typing import Protocol

from icefloe.batch.context.folder_marker import MARKER, FolderMarker
from icefloe.batch.run_settings import checkpoint_url_of
from icefloe.checkpoint.log import Checkpoint
from icefloe.errors import TerminalError
from icefloe.pipeline.environment import expand
from icefloe.pipeline.model import Pipeline
from icefloe.storage.store import Store

__all__ = ["refuse_other_coordination"]


class PlaceOfCheckpoint(Protocol):
    """A pipeline, or one of its backfills, and what is needed to look at its checkpoint and at its storage."""

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline, with ``${ENV}`` expanded."""

    @property
    def backfill_id(self) -> str | None:
        """The backfill; None: the pipeline itself."""

    @property
    def checkpoint(self) -> Checkpoint:
        """Its checkpoint."""

    def open_storage(self, url: str) -> Store:
        """A place of the pipeline's storage."""


def refuse_other_coordination(place: PlaceOfCheckpoint) -> None:
    """Stops a pipeline whose checkpoint looks empty only because its table is not there.

    ``coordination`` may be removed or edited, or a table of that name be opened in another region or account. Without
    its table a checkpoint has no records, and the pipeline would deliver everything again. The markers of shuffle
    folders are objects, so they are found without the table.

    Args:
        place: session of a pipeline, or of a backfill, whose checkpoint has no id.

    Raises:
        TerminalError: there is a marker of this checkpoint that names another table.
        TerminalError: there is a marker of this checkpoint, whose records would be in this table.
    """
    pipeline, now = place.pipeline, _name(place.pipeline.coordination)
    own_url = checkpoint_url_of(pipeline, place.backfill_id)
    for marker in _markers(place):
        if expand(marker.checkpoint_url, os.environ) != own_url:
            continue
        named = _name(marker.coordination)
        if named not in ("", now):
            raise TerminalError(
                f"the checkpoint {own_url} of pipeline {pipeline.name} is in {named}, but coordination is "
                f"{now or 'missing'}: set coordination to {named} again, or start over under another name and "
                "sink.path",
                url=own_url,
            )
        # Another run may have begun the pipeline, or the backfill, since the caller looked.
        if marker.table is not None and place.checkpoint.look().checkpoint_id is None:
            raise TerminalError(
                f"pipeline {pipeline.name} began before, but {marker.table} has no record of its checkpoint {own_url}: "
                "the table is another region's or account's, or was created again, or the storage has another region "
                "or endpoint; correct the options of both, restore the table, or start over under another name and "
                "sink.path",
                url=own_url,
                table=marker.table,
            )


def _markers(place: PlaceOfCheckpoint) -> Iterator[FolderMarker]:
    """The markers of all shuffle folders that pipelines of this name have in the storage."""
    shuffle = place.open_storage(place.pipeline.shuffle_url)
    for each in shuffle.list(""):
        folder, _, name = each.key.partition("/")
        if name == MARKER:
            marker = FolderMarker.load(shuffle.child(folder))
            if marker is not None:
                yield marker


def _name(url: str | None) -> str:
    return "" if url is None else str(expand(url, os.environ)).removesuffix("/")
