"""``validate`` checks everything that a run needs; ``verify`` compares changes with the table."""

import os
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from icefloe.batch.context.session import PipelinePlaces, PipelineSession
from icefloe.batch.plan.batch_preview import TableCheck
from icefloe.batch.run_settings import Credentials
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.batch.verify.verify_delivery import verify_delivery
from icefloe.cli.pipeline_session import awaited, credentials_here, load_named_pipeline, open_session, warn_of_conn_ids
from icefloe.cli.screen import Screen
from icefloe.engines.phase_runner import PhaseRunner
from icefloe.errors import IcefloeError, TerminalError, TransientError, UsageError
from icefloe.iceberg.catalog.catalogs import load_catalog
from icefloe.node.machine import Machine
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.pipeline_file import check_name, check_pipeline, find_pipeline
from icefloe.pipeline.settings import SinkSettings
from icefloe.redaction.hidden import redacted
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.sink import Sink
from icefloe.storage.location import open_store, plain_endpoint, probe
from icefloe.storage.options import plain_address

Found = TypeVar("Found")

_NAME_WIDTH: Final = 10


class Checklist:
    """Makes checks and prints each result."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._errors: list[IcefloeError] = []
        self.documents: list[dict[str, object]] = []
        can_tick = screen.output.encoding.startswith("utf")
        self._tick, self._cross = ("✓", "✗") if can_tick else ("ok", "failed")

    @property
    def exit_code(self) -> int:
        """0 if all checks passed; 65 if an error is permanent; 75 if all are transient."""
        if not self._errors:
            return 0
        is_final = any(isinstance(error, TerminalError) for error in self._errors)
        return TerminalError.exit_code if is_final else TransientError.exit_code

    def run(self, name: str, check: Callable[[], Found], say: Callable[[Found], str]) -> Found | None:
        """Makes one check, and prints ``say`` of its result, which it returns; None if it failed."""
        # Only an error of ours fails a check. A fault is reported once.
        try:
            found = check()
        except IcefloeError as error:
            lines = [] if error.sentence in {told.sentence for told in self._errors} else error.sentence.split("\n")
            self._errors.append(error)
            for line in lines:
                self._screen.say(f"{self._cross} {name:<{_NAME_WIDTH}} {line}")
            self.documents.append({"check": name, "is_passed": False, "text": error.sentence})
            return None
        text = redacted(say(found))
        self._screen.say(f"{self._tick} {name:<{_NAME_WIDTH}} {text}")
        self.documents.append({"check": name, "is_passed": True, "text": text})
        return found


_ADDRESSES: Final = ("uri", "s3.endpoint")
"""The properties of a catalog with the address of a service."""


def validate(arguments: Namespace, screen: Screen) -> int:
    """Prints one line for each check; returns the exit code."""
    path = find_pipeline(arguments.pipeline)
    checks = Checklist(screen)
    pipeline = checks.run("file", lambda: Pipeline.load(path, environ=os.environ), lambda _: str(path))
    if pipeline is not None:
        checks.run("name", partial(check_name, path), lambda _: pipeline.name)
        warn_of_conn_ids(pipeline)
        credentials = credentials_here(pipeline)
        built = "every key is built, and no place is inside another"
        checks.run("release", partial(check_pipeline, pipeline), lambda _: built)
        runner = _check_places(pipeline, credentials, checks)
        catalog = checks.run("catalog", lambda: _catalog_text(pipeline, credentials), str)
        if catalog is not None:
            absent = f"{pipeline.table} or its branch does not exist yet; the pipeline waits for it"
            opened = partial(_opened, pipeline, runner)
            for session in checks.run("table", opened, lambda found: pipeline.table if found else absent) or ():
                _check_table(session, checks)
    screen.answer({"file": str(path), "exit_code": checks.exit_code, "checks": checks.documents})
    return checks.exit_code


def _check_places(pipeline: Pipeline, credentials: Credentials, checks: Checklist) -> PhaseRunner | None:
    runner = checks.run(
        "engine",
        lambda: PhaseRunner.of(pipeline, os.environ).check_engine(),
        lambda runner: pipeline.engine + ("" if runner.advice is None else f"; {runner.advice}"),
    )
    if runner is not None and runner.spark is not None:
        checks.run("spark", runner.spark.try_workers, str)
    if pipeline.shuffle.transfer == "nodes":
        checks.run("node", lambda: Machine().check(), str)
    for url in filter(None, (pipeline.storage, pipeline.checkpoint)):
        checks.run("storage", partial(_probe, url, credentials), str)
    sink = pipeline.sink
    if pipeline.delivers:
        checks.run("changelog", partial(_probe, pipeline.changes_folder.path, credentials), str)
        checks.run("sink", partial(_try_delivery, pipeline, credentials), lambda url: f"{sink.type} {url}")
    else:
        tried = partial(_try_sink, sink, credentials)
        checks.run("sink", tried, lambda plain: f"{sink.type} {sink.path}{_advice(plain)}")
    return runner


def _probe(url: str, credentials: Credentials) -> str:
    probe(open_store(url, options=credentials.storage_options))
    return url + _advice(plain_endpoint(url, credentials.storage_options))


def _try_sink(sink: SinkSettings, credentials: Credentials) -> str:
    ChangeFiles(open_store(sink.path, options=credentials.sink_options)).check()
    return plain_endpoint(sink.path, credentials.sink_options)


def _try_delivery(pipeline: Pipeline, credentials: Credentials) -> str:
    places = PipelinePlaces(pipeline=pipeline, credentials=credentials)
    with places.delivery_sink() as sink:
        if sink is None:
            raise TypeError("the pipeline delivers to no sink")
        places.refuse_local(sink)
        sink.check()
        return sink.url + (
            "" if sink.arrives_once else "; at least once: a batch that is tried again may be there twice"
        )


def _catalog_text(pipeline: Pipeline, credentials: Credentials) -> str:
    with pipeline.with_lines():
        catalog = load_catalog(pipeline.catalog, properties=credentials.catalog_properties or None)
    plain = {plain_address(str(catalog.properties.get(key, ""))) for key in _ADDRESSES} - {""}
    return catalog.name + "".join(map(_advice, sorted(plain)))


def _advice(plain: str) -> str:
    return f"; {plain} is not encrypted: others on the network can read its credentials and rows" if plain else ""


def _opened(pipeline: Pipeline, runner: PhaseRunner | None) -> Sequence[PipelineSession]:
    with awaited(pipeline):
        session = open_session(pipeline)
        if runner is not None:
            runner.check_session(session)
        if pipeline.wait_for_table:
            TableCheck(session=session).head_snapshot_id()
        return (session,)
    return ()


def _check_table(session: PipelineSession, checks: Checklist) -> None:
    pipeline, table = session.pipeline, TableCheck(session=session)
    # In a tuple, because a check that gives None has failed.
    head = checks.run(
        "branch", lambda: (table.head_snapshot_id(),), lambda ids: f"{pipeline.branch} at snapshot {ids[0] or '-'}"
    )
    if head is None:
        return
    schema = checks.run("columns", table.schema, lambda found: f"{len(found.arrow)} of types that can be read")
    if schema is not None:
        checks.run("identity", table.identity, str)
        checks.run(
            "columns",
            table.shape,
            lambda found: (
                f"{len(found.delivered.arrow)} are delivered"
                + ("" if found.row_filter is None else f", of the rows where {found.row_filter.text}")
            ),
        )
        if pipeline.checks:
            checks.run("checks", table.checks, ", ".join)
    checks.run(
        "checkpoint",
        lambda: (table.next_batch_number(),),
        lambda found: "there is nothing to do" if found[0] is None else f"batch {found[0]} can be planned",
    )


def verify(arguments: Namespace, screen: Screen) -> None:
    """Proves that the delivered changes lead from the start state to the end state."""
    session = open_session(load_named_pipeline(arguments))
    with session.delivery_sink() as sink:
        if sink is not None:
            _compare(session, sink, screen, first=arguments.first)
            return
    if arguments.first is not None:
        raise UsageError("the files sink is replayed as a whole: leave out --from")
    _replay(session, screen)


def _replay(session: PipelineSession, screen: Screen) -> None:
    with screen.under_way("replaying the delivered changes"):
        found = verify_batches(session)
    if not found.is_equal:
        raise TerminalError(*found.sentences)
    counted = {"batches": found.batches, "changes": found.changes, "rows": found.rows}
    screen.answer({"pipeline": session.pipeline.name, "table": session.pipeline.table, "is_equal": True, **counted})
    screen.say(
        f"{session.pipeline.name}: {found.changes:,} changes of {found.batches:,} batches lead to exactly the "
        f"{found.rows:,} rows of {session.pipeline.table}"
        if found.batches
        else f"{session.pipeline.name}: there is nothing delivered to replay yet"
    )


def _compare(session: PipelineSession, sink: Sink, screen: Screen, *, first: int | None) -> None:
    with screen.under_way(f"reading {sink.url} back"), session.pipeline.with_lines():
        found = verify_delivery(session, sink, first=first)
    screen.facts({"notes": found.notes})
    screen.answer({
        "pipeline": session.pipeline.name, "table": session.pipeline.table, "sink": found.url,
        "snapshot_id": None if found.snapshot_id is None else str(found.snapshot_id), "is_equal": found.is_equal,
        "rows": found.rows, "counts": found.counts, "keys": found.keys, "notes": found.notes,
    })  # fmt: skip
    if not found.is_equal:
        raise TerminalError(*found.sentences)
    if found.snapshot_id is not None:
        screen.say(
            f"{found.url} holds exactly the {found.rows:,} rows of {session.pipeline.table} that were compared"
            if found.rows or not found.uncompared
            else f"no row of {session.pipeline.table} was compared: {found.url} has no change of any of them"
        )
