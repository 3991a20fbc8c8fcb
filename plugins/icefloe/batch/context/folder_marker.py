"""The marker of a shuffle folder: it leads from the files of a checkpoint to the checkpoint."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import ConfigDict

from icefloe.documents import LEFT_OUT_IF_NONE, STRICT, dump_document, load_document
from icefloe.storage.keys import join_url
from icefloe.storage.store import KeyMissingError, Store

__all__ = ["MARKER", "FolderMarker", "mark_folder"]

MARKER: Final = "_checkpoint.json"
"""Key of the marker in the folder. The batches next to it have numbers for names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderMarker:
    """``_checkpoint.json``: the checkpoint whose batches are next to it.

    The folder is named after the checkpoint's id. The checkpoint itself may be anywhere, even in another bucket.

    Attributes:
        checkpoint_id: the name of the folder too.
        checkpoint_url: URL of the checkpoint, ``${ENV}`` unexpanded.
        pipeline: its name, for people.
        backfill_id: the backfill that the checkpoint is of; None for the pipeline itself.
        changes_url: URL of the folder where batches are staged, ``${ENV}`` unexpanded; None: ``staged/<name>`` below
            the storage, or none at all.
        coordination: the table that holds the created documents of folder and checkpoint, ``${ENV}`` unexpanded; None:
            they are in their stores.
        table: address of that table, or of the table that holds the checkpoint alone; None: there is none.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    checkpoint_id: str
    checkpoint_url: str
    pipeline: str
    backfill_id: str | None = None
    changes_url: Annotated[str | None, LEFT_OUT_IF_NONE] = None
    coordination: Annotated[str | None, LEFT_OUT_IF_NONE] = None
    table: Annotated[str | None, LEFT_OUT_IF_NONE] = None

    @classmethod
    def load(cls, store: Store) -> Self | None:
        """The marker of a folder; None if it has none.

        Raises:
            TerminalError: it is damaged, or was written by a newer release.
        """
        data, what = store.find(MARKER), f"the marker {join_url(store.url, MARKER)}"
        return None if data is None else load_document(cls, data, what=what)


def mark_folder(store: Store, marker: FolderMarker) -> None:
    """Writes the marker of a folder, unless there already is the same one.

    A checkpoint may be moved to another URL, and then goes on. So a marker that names another URL is replaced.

    Args:
        store: the folder.
        marker: the marker that the folder is to have.
    """
    data = dump_document(marker)
    try:
        is_marked = store.get(MARKER) == data
    except KeyMissingError:
        is_marked = False
    if not is_marked:
        store.put(MARKER, data)
