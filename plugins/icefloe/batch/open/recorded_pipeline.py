"""The pipeline that a checkpoint was made for, compared with the pipeline of today."""

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from icefloe.batch.context.batch_folder import MARKER, FolderMarker
from icefloe.batch.context.session import PipelineSession
from icefloe.batch.run_settings import RunSettings
from icefloe.checkpoint.batch_spec import PLANNER_VERSION, Identity
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import OffsetRecord, PipelineRecord
from icefloe.errors import TerminalError
from icefloe.iceberg.table import table_uuid
from icefloe.pipeline.environment import expand
from icefloe.pipeline.model import JSON, Pipeline, tuning_configuration
from icefloe.storage.store import Store
from icefloe.version import VERSION

__all__ = [
    "ConfigurationChangedError",
    "pipeline_record",
    "record_pipeline",
    "refuse_other_coordination",
    "refuse_other_meaning",
]

logger = logging.getLogger(__name__)


class PlaceOfCheckpoint(Protocol):
    """A pipeline or a backfill, and what is needed to look at its checkpoint and storage."""

    @property
    def pipeline(self) -> Pipeline:
        """With ``${ENV}`` expanded."""

    @property
    def backfill_id(self) -> str | None:
        """The backfill; None: the pipeline itself."""

    @property
    def checkpoint(self) -> Checkpoint:
        """Of the backfill, if there is one."""

    def open_storage(self, url: str) -> Store:
        """A place of the pipeline's storage."""


def refuse_other_coordination(place: PlaceOfCheckpoint) -> None:
    """Stops a pipeline whose checkpoint looks empty only because its coordination table is missing.

    ``coordination`` may be edited, or name a table of another region or account. The pipeline would deliver everything
    again. The markers of shuffle folders are objects, so they are found without the table.
    """
    pipeline, now = place.pipeline, _name(place.pipeline.coordination)
    own_url = RunSettings(pipeline=pipeline, backfill_id=place.backfill_id).checkpoint_url
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
    """Of all shuffle folders of this pipeline name."""
    shuffle = place.open_storage(place.pipeline.shuffle_url)
    for each in shuffle.list(""):
        folder, _, name = each.key.partition("/")
        if name == MARKER:
            marker = FolderMarker.load(shuffle.child(folder))
            if marker is not None:
                yield marker


def _name(url: str | None) -> str:
    return "" if url is None else str(expand(url, os.environ)).removesuffix("/")


class ConfigurationChangedError(TerminalError):
    """The pipeline, or its table, is not the one that its checkpoint was made for."""

    differences: tuple[tuple[str, object, object], ...] = ()
    recorded: str | None = None
    current: str | None = None


def pipeline_record(session: PipelineSession, identity: Identity, *, checkpoint_id: str) -> PipelineRecord:
    """The record of a pipeline, written with its first batch."""
    return PipelineRecord(
        checkpoint_id=checkpoint_id,
        name=session.pipeline.name,
        table=session.pipeline.table,
        table_uuid=table_uuid(session.table),
        table_location=session.table.metadata.location,
        identity=identity,
        result_configuration=session.result_configuration,
        icefloe_version=VERSION,
    )


def record_pipeline(session: PipelineSession, first: OffsetRecord, *, checkpoint_id: str) -> PipelineRecord:
    """Records the pipeline with the first batch of a checkpoint; returns the record that counts.

    Raises:
        ConfigurationChangedError: another run was first, with other keys or another table.
    """
    record = pipeline_record(session, first.spec.identity, checkpoint_id=checkpoint_id)
    recorded = session.checkpoint.create_pipeline(record, first.follows)
    refuse_other_meaning(session, recorded)
    return recorded


def refuse_other_meaning(session: PipelineSession, recorded: PipelineRecord) -> None:
    """Raises `ConfigurationChangedError` if the table was replaced or a key was edited since the first batch."""
    _refuse_other_table(session, recorded)
    differences = compare(recorded.result_configuration, session.result_configuration)
    if differences:
        raise ConfigurationChangedError(
            f"pipeline {session.pipeline.name} ({session.pipeline.path}) changed settings that affect its output after "
            f"its first batch: {_pairs(differences)}; restore the keys, or reset the pipeline to start "
            f"over (icefloe reset {session.pipeline.name})",
            differences=tuple(differences),
        )


def has_other_meaning(session: PipelineSession, recorded: PipelineRecord) -> bool:
    """True if `refuse_other_meaning` raises."""
    try:
        refuse_other_meaning(session, recorded)
    except ConfigurationChangedError:
        return True
    return False


def warnings_of_resumed(pipeline: Pipeline, opened: OffsetRecord) -> tuple[str, ...]:
    """The warning that an open batch keeps its sizes; empty if they equal those of today."""
    name, number = pipeline.name, opened.batch_number
    if opened.spec.planner_version != PLANNER_VERSION:
        raise TerminalError(
            f"batch {number} of {name} was planned by version {opened.spec.planner_version} of the planner, and this "
            f"release has version {PLANNER_VERSION}: finish it with icefloe {opened.icefloe_version}, which opened it",
            batch_number=number,
        )
    logger.info("%s: resuming batch %d", name, number)
    differences = compare(opened.spec.sizes, tuning_configuration(pipeline))
    if not differences:
        return ()
    warning = (
        f"batch {number} of {name} is open and keeps the sizes it was opened with: {_pairs(differences)}; the next "
        "batch takes the new ones"
    )
    logger.warning("%s", warning)
    return (warning,)


def _refuse_other_table(session: PipelineSession, recorded: PipelineRecord) -> None:
    """By its uuid, or by its location if a table of version 1 has no uuid."""
    uuid = table_uuid(session.table)
    what, was, now = "uuid", recorded.table_uuid, uuid
    if recorded.table_uuid is None or uuid is None:
        what, was, now = "location", recorded.table_location, session.table.metadata.location
    if was != now:
        raise ConfigurationChangedError(
            f"pipeline {session.pipeline.name} follows the table {recorded.table} with {what} {was}, but the table of "
            f"that name now has {what} {now}: it was dropped and created again; icefloe reset "
            f"{session.pipeline.name} starts over with the new table",
            recorded=was,
            current=now,
        )


def _pairs(differences: Sequence[tuple[str, object, object]]) -> str:
    return ", ".join(f"{key} was {json.dumps(was)} and is {json.dumps(now)}" for key, was, now in differences)


def compare(recorded: Mapping[str, Any], current: Mapping[str, Any]) -> list[tuple[str, JSON, JSON]]:
    """Keys whose values differ, sorted, with the recorded and the current value; None for a missing one.

    >>> compare({"table": "nyc.flights", "changes": "each"}, {"table": "nyc.flights", "changes": "net"})
    [('changes', 'each', 'net')]
    """
    keys = sorted(recorded.keys() | current.keys())
    return [(key, recorded.get(key), current.get(key)) for key in keys if recorded.get(key) != current.get(key)]
