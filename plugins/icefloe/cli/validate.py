"""``icefloe validate``: everything a run needs, checked without running it."""

import os
from argparse import Namespace
from functools import partial

from icefloe.batch.credentials import Credentials
from icefloe.batch.identity import choose_identity
from icefloe.batch.open_batch import next_batch
from icefloe.batch.session import PipelineSession
from icefloe.changes.columns import refuse_reserved_columns
from icefloe.cli.checklist import Checklist
from icefloe.cli.ids import id_text
from icefloe.cli.pipeline_session import open_session, without_airflow
from icefloe.cli.screen import Screen
from icefloe.engines.run_batch import phase_runner
from icefloe.iceberg.catalogs import load_catalog
from icefloe.iceberg.history import head
from icefloe.iceberg.table_schema import TableSchema
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.not_built import refuse_unbuilt
from icefloe.pipeline.pipeline_file import find_pipeline, load_pipeline
from icefloe.storage.location import open_store
from icefloe.storage.probe import probe

__all__ = ["validate"]


def validate(arguments: Namespace, screen: Screen) -> int:
    """Prints one line for each check; 65 if one fails for good, 75 if some may pass later."""
    path = find_pipeline(arguments.pipeline)
    checks = Checklist(screen)
    pipeline = checks.run("file", lambda: load_pipeline(path, environ=os.environ), lambda _: str(path))
    if pipeline is not None:
        checks.run("release", lambda: refuse_unbuilt(pipeline), lambda _: "every key is built")
        _check_storage(pipeline, checks)
        catalog = checks.run("catalog", lambda: _open_catalog(pipeline), str)
        session = None
        if catalog is not None:
            session = checks.run("table", lambda: open_session(pipeline), lambda _: pipeline.table)
        if session is not None:
            _check_table(session, checks)
            _check_delivery(session, checks)
    return checks.exit_code


def _check_storage(pipeline: Pipeline, checks: Checklist) -> None:
    for url in (pipeline.storage, pipeline.checkpoint):
        if url is not None:
            checks.run("storage", partial(_probe, url), lambda probed: f"{probed} can be written")


def _probe(url: str) -> str:
    probe(open_store(url, options=Credentials.from_environment(os.environ).storage_options))
    return url


def _open_catalog(pipeline: Pipeline) -> str:
    with without_airflow():
        return load_catalog(pipeline.catalog).name


def _check_table(session: PipelineSession, checks: Checklist) -> None:
    pipeline, metadata = session.pipeline, session.table.metadata
    snapshot_ids = checks.run(
        "branch", lambda: _head_ids(session), lambda ids: f"{pipeline.branch} at snapshot {id_text(ids[0])}"
    )
    if snapshot_ids is None:
        return
    schema = checks.run(
        "columns", lambda: TableSchema.at(metadata, snapshot_ids[0]), lambda found: f"{len(found.arrow)} can be read"
    )
    if schema is None:
        return
    checks.run(
        "identity",
        lambda: choose_identity(pipeline.identifier_columns, schema),
        lambda found: ", ".join(found.columns) or "none: INSERT and DELETE only",
    )
    checks.run(
        "names",
        lambda: refuse_reserved_columns(schema.arrow.names, table=pipeline.table),
        lambda _: "no column is called like one of icefloe's",
    )


def _head_ids(session: PipelineSession) -> tuple[int | None]:
    newest = head(session.table, session.pipeline.branch)
    return (None if newest is None else newest.snapshot_id,)


def _check_delivery(session: PipelineSession, checks: Checklist) -> None:
    pipeline = session.pipeline
    checks.run(
        "checkpoint",
        lambda: (next_batch(session),),
        lambda found: "nothing to do" if found[0] is None else f"batch {found[0].offset.batch_number} can be planned",
    )
    checks.run("engine", lambda: (phase_runner(session, os.environ),), lambda _: pipeline.engine)
    checks.run("sink", lambda: session.sink.check(), lambda _: f"{pipeline.sink.type} {pipeline.sink.path}")
