"""The pipeline that a checkpoint was made for, and its differences from the pipeline of today."""

import json
from collections.abc import Sequence

from icefloe.batch.context.session import PipelineSession
from icefloe.checkpoint.identity import Identity
from icefloe.checkpoint.records import OffsetRecord, PipelineRecord
from icefloe.errors import TerminalError
from icefloe.iceberg.table import table_uuid
from icefloe.pipeline.recorded_configuration import compare, tuning_configuration
from icefloe.version import VERSION

__all__ = ["ConfigurationChangedError", "pipeline_record", "refuse_other_meaning"]


class ConfigurationChangedError(TerminalError):
    """The pipeline, or its table, is not the one that its checkpoint was made for."""

    differences: tuple[tuple[str, object, object], ...] = ()
    recorded: str | None = None
    current: str | None = None


def pipeline_record(session: PipelineSession, identity: Identity, *, checkpoint_id: str) -> PipelineRecord:
    """The record of the pipeline that a checkpoint is made for, written with its first batch."""
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


def refuse_other_meaning(session: PipelineSession, recorded: PipelineRecord) -> None:
    """Stops a pipeline whose table was replaced or whose keys were edited since its first batch.

    Raises:
        ConfigurationChangedError: the table or a key differs; the error has the recorded and the current values.
    """
    _refuse_other_table(session, recorded)
    differences = compare(recorded.result_configuration, session.result_configuration)
    if differences:
        raise ConfigurationChangedError(
            f"pipeline {session.pipeline.name} ({session.pipeline.path}) changed settings that affect its output after "
            f"its first batch: {_pairs(differences)}; restore the keys, or reset the pipeline to start "
            f"over (icefloe reset {session.pipeline.name})",
            differences=tuple(differences),
        )


def tuning_warnings(session: PipelineSession, opened: OffsetRecord) -> tuple[str, ...]:
    """The warning that an open batch keeps the sizes it was opened with; empty if they equal the sizes of today."""
    current = tuning_configuration(session.pipeline)
    differences = compare(opened.spec.sizes, current)
    if not differences:
        return ()
    warning = (
        f"batch {opened.batch_number} of {session.pipeline.name} is open and keeps the sizes it was opened with: "
        f"{_pairs(differences)}; the next batch takes the new ones"
    )
    return (warning,)


def _refuse_other_table(session: PipelineSession, recorded: PipelineRecord) -> None:
    """Stops if the table is another one, by its uuid, or by its location if a table of version 1 has no uuid."""
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
