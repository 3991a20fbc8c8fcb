"""The pipeline that a checkpoint was made for, compared with the pipeline of today."""

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from icefloe.batch.context.batch_folder import MARKER, FolderMarker
from icefloe.batch.context.session import PipelinePlaces, PipelineSession
from icefloe.checkpoint.batch_spec import Identity
from icefloe.checkpoint.log import CheckpointView
from icefloe.checkpoint.records import OffsetRecord, PipelineRecord
from icefloe.errors import TerminalError
from icefloe.pipeline.environment import expand
from icefloe.version import VERSION

__all__ = [
    "look_at_checkpoint",
    "pipeline_differences",
    "pipeline_record",
    "record_pipeline",
    "refuse_other_meaning",
]

logger = logging.getLogger(__name__)


def look_at_checkpoint(places: PipelinePlaces) -> CheckpointView:
    """The checkpoint now; `TerminalError` if it looks empty only because its coordination table is missing."""
    view = places.checkpoint.look()
    if view.checkpoint_id is None:
        refuse_other_coordination(places)
    return view


def refuse_other_coordination(places: PipelinePlaces) -> None:
    """Stops a pipeline whose checkpoint is in another table.

    ``coordination`` may be edited, or name a table of another region or account. The pipeline would deliver everything
    again. The markers of shuffle folders are objects, so they are found without the table.
    """
    pipeline, own_url = places.pipeline, places.settings.checkpoint_url
    now = (pipeline.coordination or "").removesuffix("/")
    for marker in _markers(places):
        url, named = expand([marker.checkpoint_url, (marker.coordination or "").removesuffix("/")], os.environ)
        if url != own_url:
            continue
        if named not in ("", now):
            raise TerminalError(
                f"the checkpoint {own_url} of pipeline {pipeline.name} is in {named}, but coordination is "
                f"{now or 'missing'}: set coordination to {named} again, or start over under another name and "
                "sink.path",
                url=own_url,
            )
        # Another run may have begun the pipeline, or the backfill, since the caller looked.
        if marker.table is not None and places.checkpoint.look().checkpoint_id is None:
            raise TerminalError(
                f"pipeline {pipeline.name} began before, but {marker.table} has no record of its checkpoint {own_url}: "
                "the table is another region's or account's, or was created again, or the storage has another region "
                "or endpoint; correct the options of both, restore the table, or start over under another name and "
                "sink.path",
                url=own_url,
                table=marker.table,
            )


def _markers(places: PipelinePlaces) -> Iterator[FolderMarker]:
    """Of all shuffle folders of this pipeline name."""
    shuffle = places.open_storage(places.pipeline.shuffle_url)
    for each in shuffle.list(""):
        folder, _, name = each.key.partition("/")
        if name == MARKER:
            marker = FolderMarker.load(shuffle.child(folder))
            if marker is not None:
                yield marker


def pipeline_record(session: PipelineSession, identity: Identity, *, checkpoint_id: str) -> PipelineRecord:
    """The record of a pipeline, written with its first batch."""
    return PipelineRecord(
        checkpoint_id=checkpoint_id,
        name=session.pipeline.name,
        table=session.pipeline.table,
        table_uuid=session.table.uuid,
        table_location=session.table.metadata.location,
        identity=identity,
        result_configuration=session.result_configuration,
        icefloe_version=VERSION,
    )


def record_pipeline(session: PipelineSession, first: OffsetRecord, *, checkpoint_id: str) -> PipelineRecord:
    """Records the pipeline with the first batch of a checkpoint; returns the record that counts.

    `TerminalError` if another run was first, with other keys or another table.
    """
    record = pipeline_record(session, first.spec.identity, checkpoint_id=checkpoint_id)
    recorded = session.checkpoint.create_pipeline(record, first.follows)
    refuse_other_meaning(session, recorded)
    return recorded


def refuse_other_meaning(session: PipelineSession, recorded: PipelineRecord) -> None:
    """Raises if the table was replaced or a key was edited since the first batch."""
    name, (kind, was, now) = session.pipeline.name, _tables(session, recorded)
    if was != now:
        raise TerminalError(
            f"pipeline {name} follows the table {recorded.table} with {kind} {was}, but the table of that name now has "
            f"{kind} {now}: it was dropped and created again; icefloe reset {name} starts over with the new table",
        )
    differences = pipeline_differences(session, recorded)
    if differences:
        raise TerminalError(
            f"pipeline {name} ({session.pipeline.path}) changed settings that affect its output after its first batch: "
            f"{_pairs(differences)}; restore the keys, or reset the pipeline to start over (icefloe reset {name})",
        )


def pipeline_differences(session: PipelineSession, recorded: PipelineRecord) -> list[tuple[str, object, object]]:
    """Key, recorded and present value of each difference that `refuse_other_meaning` raises for."""
    _, was, now = _tables(session, recorded)
    if was != now:
        return [("table", was, now)]
    return [*compare(recorded.result_configuration, session.result_configuration)]


def _tables(session: PipelineSession, recorded: PipelineRecord) -> tuple[str, str, str]:
    """The recorded and the present table, by uuid, or by location if a table of version 1 has no uuid."""
    table = session.table
    if recorded.table_uuid is None or table.uuid is None:
        return "location", recorded.table_location, table.metadata.location
    return "uuid", recorded.table_uuid, table.uuid


def _pairs(differences: Sequence[tuple[str, object, object]]) -> str:
    return ", ".join(f"{key} was {json.dumps(was)} and is {json.dumps(now)}" for key, was, now in differences)


def compare(recorded: Mapping[str, Any], current: Mapping[str, Any]) -> list[tuple[str, object, object]]:
    """Keys whose values differ, sorted, with the recorded and the current value; None for a missing one.

    >>> compare({"table": "nyc.flights", "changes": "each"}, {"table": "nyc.flights", "changes": "net"})
    [('changes', 'each', 'net')]
    """
    keys = sorted(recorded.keys() | current.keys())
    return [(key, recorded.get(key), current.get(key)) for key in keys if recorded.get(key) != current.get(key)]
