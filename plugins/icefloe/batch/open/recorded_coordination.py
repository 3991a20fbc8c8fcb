"""The table that the documents of a checkpoint were created in, and a pipeline that names another one or none."""

import os
from collections.abc import Iterator

from icefloe.batch.context.folder_marker import MARKER, FolderMarker
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.run_settings import checkpoint_url_of
from icefloe.errors import TerminalError
from icefloe.pipeline.environment import expand


class OtherCoordinationError(TerminalError):
    """The checkpoint of a pipeline is in a table that its file no longer names. Facts: ``recorded``, the table."""

    url: str
    recorded: str


def refuse_other_coordination(session: PipelineSession) -> None:
    """Stops a pipeline whose checkpoint looks empty only because ``coordination`` was removed or edited.

    Without its table a checkpoint has no records, and the pipeline would deliver everything again. The markers of
    shuffle folders are objects, so they are found without the table.

    Args:
        session: session of a pipeline, or of a backfill, whose checkpoint has no id.

    Raises:
        OtherCoordinationError: there is a marker of this checkpoint that names another table.
    """
    pipeline, now = session.pipeline, _name(session.pipeline.coordination)
    own_url = checkpoint_url_of(pipeline, session.backfill_id)
    for marker in _markers(session):
        named = _name(marker.coordination)
        if named not in ("", now) and expand(marker.checkpoint_url, os.environ) == own_url:
            raise OtherCoordinationError(
                f"the checkpoint {own_url} of pipeline {pipeline.name} is in {named}, but coordination is "
                f"{now or 'missing'}: set coordination to {named} again, or start over under another name and "
                "sink.path",
                url=own_url,
                recorded=named,
            )


def _markers(session: PipelineSession) -> Iterator[FolderMarker]:
    """The markers of all shuffle folders that pipelines of this name have in the storage."""
    shuffle = session.open_storage(session.pipeline.shuffle_url)
    for each in shuffle.list(""):
        folder, _, name = each.key.partition("/")
        if name == MARKER:
            marker = FolderMarker.load(shuffle.child(folder))
            if marker is not None:
                yield marker


def _name(url: str | None) -> str:
    return "" if url is None else str(expand(url, os.environ)).removesuffix("/")
