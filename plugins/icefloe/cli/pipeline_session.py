"""The pipeline of a command, outside Airflow."""

import logging
import os
from argparse import Namespace
from contextlib import suppress
from dataclasses import replace
from typing import Final

from icefloe.batch.context.session import PipelinePlaces, PipelineSession
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.run_settings import Credentials
from icefloe.checkpoint.records import Writer
from icefloe.iceberg.catalog.catalogs import UnknownTableError
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.pipeline_file import check_pipeline, find_pipeline

logger = logging.getLogger(__name__)

_BOUNDS: Final = ("after_snapshot_id", "up_to_snapshot_id", "after_timestamp", "up_to_timestamp")


def awaited(pipeline: Pipeline) -> suppress:
    """Leaves a block at a missing table or branch that the pipeline waits for."""
    return suppress(*((UnknownTableError,) if pipeline.wait_for_table else ()))


def load_named_pipeline(arguments: Namespace) -> Pipeline:
    """The expanded pipeline of ``PIPELINE``, with ``--engine``. Warns of connections, refuses what is not built."""
    pipeline = Pipeline.load(find_pipeline(arguments.pipeline), environ=os.environ)
    engine = getattr(arguments, "engine", None)
    if engine is not None:
        pipeline = replace(pipeline, engine=engine)
    check_pipeline(pipeline)
    warn_of_conn_ids(pipeline)
    return pipeline


def open_session(pipeline: Pipeline, *, takes_over: bool = False, command: str = "run") -> PipelineSession:
    """Table, checkpoint and sink, opened by credentials of the environment or the machine."""
    places = places_here(pipeline, command=command)
    return PipelineSession.open(
        pipeline, credentials=places.credentials, environ=os.environ, writer=places.writer, takes_over=takes_over
    )


def places_here(pipeline: Pipeline, *, backfill_id: str | None = None, command: str = "run") -> PipelinePlaces:
    """The places of a pipeline or a backfill, without catalog or table."""
    return PipelinePlaces(
        pipeline=pipeline,
        credentials=credentials_here(pipeline),
        writer=Writer(owner=Writer.owner_in(os.environ), run=f"icefloe {command} of process {os.getpid()}"),
        backfill_id=backfill_id,
    )


def credentials_here(pipeline: Pipeline) -> Credentials:
    """Credentials outside Airflow: of the environment, otherwise of the machine."""
    conn_id = None if pipeline.sink.type == "files" else pipeline.sink.conn_id
    credentials = Credentials.from_environment(os.environ, sink_conn_id=conn_id)
    return credentials.coordinated_by(pipeline.coordination, pipeline.storage_of_table)


def warn_of_conn_ids(pipeline: Pipeline) -> None:
    """Warns of Airflow connections that cannot be read outside Airflow."""
    for key, conn_id in (("storage_conn_id", pipeline.storage_conn_id), ("sink.conn_id", pipeline.sink.conn_id)):
        if conn_id is None or Credentials.are_given(os.environ):
            continue
        way_out, variable = "the machine's own identity is used", f"AIRFLOW_CONN_{conn_id.upper()}"
        if key == "sink.conn_id" and pipeline.sink.type != "files":
            if variable in os.environ:
                continue
            way_out = f"set {variable} to it, in JSON"
        logger.warning("%s names the Airflow connection %r, unknown outside Airflow: %s", key, conn_id, way_out)


def requested_range(arguments: Namespace) -> RequestedRange | None:
    """The range of the given bounds; None asks for the next batch.

    >>> requested_range(Namespace(after_snapshot_id=7)).after_snapshot_id
    7
    """
    bounds = {name: getattr(arguments, name, None) for name in _BOUNDS}
    given = {name: value for name, value in bounds.items() if value is not None}
    return RequestedRange(**given) if given else None
