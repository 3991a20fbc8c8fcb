"""Check: SQL of the pipeline file over the changes of a proven batch, before anybody sees them.

DuckDB has the changes in a file on a local disk, within the memory of a task. Its queries reach no other file and no
network, and change nothing.
"""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from icefloe.batch.context.references import BatchReference
from icefloe.batch.context.running_batch import RunningBatch
from icefloe.batch.deliver.prove import (
    FinishedTasks,
    OutputMode,
    check_digests,
    prove,
    proven_batch,
    staged_parts,
    written_again_if_damaged,
)
from icefloe.batch.phase_record import CheckResult, WrongRows
from icefloe.batch.plan_document import phase_key
from icefloe.changes.columns import ChangeColumns, plain_rows
from icefloe.errors import TerminalError, one_line
from icefloe.flow import FlowTask
from icefloe.patience import Lane
from icefloe.pipeline.model import Pipeline
from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.storage.local_folders import on_local_disk, task_folder
from icefloe.storage.store import join_url

if TYPE_CHECKING:
    import duckdb

__all__ = ["BatchChecks"]

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

_SAMPLES: Final = 5
_SAMPLE_CHARACTERS: Final = 200
_ROWS_AT_ONCE: Final = 2048
_LEAST_BYTES: Final = 64 * 2**20
_THREAD_BYTES: Final = 256 * 2**20
"""DuckDB asks for half of it at least."""


@dataclass(frozen=True, slots=True)
class BatchChecks:
    """The checks of a pipeline."""

    pipeline: Pipeline

    def run(self, reference: BatchReference) -> tuple[CheckResult, ...]:
        """Checks a proven batch, unless readers see it already.

        Raises:
            UnfinishedTasksError: a part is missing.
            TerminalError: a check with ``on_failure: fail`` found wrong rows, or did not end.
        """
        running = reference.open()
        with running.recording(FlowTask.CHECK) as tally:
            batch = prove(running)
            if running.may_be_seen:
                logger.info("batch %d is visible: it is not checked again", running.plan.batch_number)
                return tally.record.checks
            tally.record.checks = self._results(running, batch)
        # The attempt has ended, with what it found: it was not lost.
        _require_passed(running, tally.record.checks)
        return tally.record.checks

    def require_bound(self, columns: pa.Schema) -> None:
        """Binds each query to a table without rows; ``columns`` are those of the table that are delivered."""
        with (
            self.pipeline.with_lines(),
            task_folder("checks") as folder,
            on_local_disk("the checks cannot be tried"),
            _connected(folder / "changes", memory_bytes=_LEAST_BYTES) as changes,
        ):
            with_properties = bool(self.pipeline.commit_properties)
            changes.create(ChangeColumns.schema(columns, with_batch=True, with_properties=with_properties))
            changes.lock()
            for check in self.pipeline.checks:
                if (error := changes.wrong_rows(check.query).error) is not None:
                    raise TerminalError(f"check {check.name} is no query of changes: {error}", key="checks")

    def _schema(self, given: ProvenBatch) -> pa.Schema:
        # A batch without steps, or one that was opened before somebody asked for them, has no properties of commits.
        asks = bool(self.pipeline.commit_properties) or ChangeColumns.PROPERTIES in given.given_schema.names
        return ChangeColumns.schema(given.shown_schema, with_batch=True, with_properties=asks)

    def _results(self, running: RunningBatch, batch: FinishedTasks) -> tuple[CheckResult, ...]:
        number, memory_bytes = running.plan.batch_number, running.folder.memory_bytes
        files, delivered = running.folder_of_changes, running.folder.shape.delivered
        with written_again_if_damaged(running, batch):
            manifest = files.checked(batch.summary, batch.messages, delivered.schema_json)
        # The one that is staged may have other parts.
        manifest = files.find(number) or manifest
        parts = list(staged_parts(files, manifest, memory_bytes=memory_bytes))
        output = OutputMode.of(manifest.batch, parts, self.pipeline.changes)
        given = proven_batch(running.checkpoint.known_offset(number), manifest, output)
        results, loaded = [], 0
        with (
            task_folder("checks") as folder,
            on_local_disk("the changes of a batch do not fit the disk, or shuffle.memory_bytes, for its checks"),
        ):
            file = folder / "changes"
            with _connected(file, memory_bytes=memory_bytes) as changes:
                changes.create(schema := self._schema(given))
                for part in map(output.reduced, parts):
                    for rows in part.read():
                        changes.insert(_fitted(given.given_rows(rows), schema))
                        loaded += rows.num_rows
                changes.run("COMMIT")
            # Only `_rows` knows how many changes are in steps that are left out.
            if loaded != given.rows and not output.skipped:
                raise TerminalError(
                    f"batch {number} has {given.rows:,} changes by its tasks, and {loaded:,} in {files.url}: delete "
                    "its files there and run again",
                    batch_number=number,
                )
            # Inside of a WITH, a query could delete changes.
            with _connected(file, memory_bytes=memory_bytes, only_reads=True) as changes:
                changes.lock()
                for check, digest in zip(self.pipeline.checks, check_digests(self.pipeline, batch), strict=True):
                    found = changes.wrong_rows(check.query)
                    result = CheckResult.of(check.name, found, digest=digest, stops=check.on_failure == "fail")
                    level = logging.WARNING if result.outcome == "warned" else logging.INFO
                    logger.log(level, "batch %d: %s: %s", number, result.sentence, result.outcome)
                    results.append(result)
        return tuple(results)


def _fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if rows.schema.equals(schema):
        return rows
    place = schema.names.index(ChangeColumns.PROPERTIES)
    nothing = pa.nulls(rows.num_rows, schema.field(place).type)
    return pa.RecordBatch.from_arrays([*rows.columns[:place], nothing, *rows.columns[place:]], schema=schema)


def _require_passed(running: RunningBatch, results: tuple[CheckResult, ...]) -> None:
    plan = running.plan
    if failed := [each.sentence for each in results if each.outcome == "failed"]:
        after = plan.spec.after_snapshot_id or "the beginning"
        raise TerminalError(
            f"batch {plan.batch_number} of {plan.pipeline} (after snapshot {after}, up to snapshot "
            f"{plan.spec.up_to_snapshot_id}) is not delivered: {', '.join(failed)}; the batch's page in Airflow, "
            f"icefloe show and {join_url(running.folder.store.url, phase_key(FlowTask.CHECK))} show why. Correct the "
            f"check in the pipeline file and run again or clear {FlowTask.CHECK}, or give the batch up by "
            f"{plan.giving_up}",
            batch_number=plan.batch_number,
        )


@contextmanager
def _connected(file: Path, *, memory_bytes: int, only_reads: bool = False) -> Iterator["_Changes"]:
    limit = max(_LEAST_BYTES, memory_bytes * 3 // 4)
    try:
        # Only pipelines with checks need it.
        import duckdb
    except ModuleNotFoundError:
        raise TerminalError(
            "checks need the package duckdb, which is not installed here; install icefloe[checks] wherever tasks run"
        ) from None
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{limit}B", "threads": max(1, min(4, limit // _THREAD_BYTES)),
        "temp_directory": str(file.parent), "preserve_insertion_order": False,
    }  # fmt: skip
    try:
        place = str(file) if only_reads else ":memory:"
        with duckdb.connect(place, read_only=only_reads, config=config) as connection:
            changes, name = _Changes(connection), str(file).replace("'", "''")
            if not only_reads:
                # Until a row group is full, DuckDB has its texts in memory. This is the smallest size.
                changes.run(f"ATTACH '{name}' AS kept (ROW_GROUP_SIZE {_ROWS_AT_ONCE})")
                changes.run("USE kept")
            yield changes
    except duckdb.OperationalError as cause:
        # A full disk at COMMIT is no IOException.
        raise OSError(one_line(cause)) from cause


class _Changes:
    """The table ``changes``."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection") -> None:
        self._connection = connection
        self._lane = Lane(threads=1, name="check", daemon=True)

    def create(self, schema: pa.Schema) -> None:
        """Begins the transaction that `insert` adds to."""
        self._connection.register("part", pa.Table.from_batches([], schema))
        self.run("CREATE TABLE changes AS FROM part")
        self.run("BEGIN")

    def insert(self, rows: pa.RecordBatch) -> None:
        self._connection.register("part", pa.Table.from_batches([rows]))
        self.run("INSERT INTO changes FROM part")

    def lock(self) -> None:
        """From here on there are no other files, no network and no setting."""
        self.run("SET TimeZone = 'UTC'")
        self.run("SET enable_external_access = false")
        self.run("SET lock_configuration = true")

    def run(self, statement: str) -> None:
        self._answer(lambda: self._connection.execute(statement))

    def wrong_rows(self, query: str) -> WrongRows:
        import duckdb  # see `_connected`

        try:
            return self._answer(lambda: self._found(query))
        except duckdb.IOException:
            raise
        except (duckdb.Error, ValueError) as cause:
            return WrongRows(error=one_line(cause))

    def _found(self, query: str) -> WrongRows:
        statements = self._connection.extract_statements(query)
        if [each.type.name for each in statements] != ["SELECT"]:
            raise ValueError("write one SELECT")
        rows, samples = 0, list[dict[str, str | None]]()
        try:
            for found in self._connection.sql(query).to_arrow_reader(_ROWS_AT_ONCE):
                rows += found.num_rows
                samples += [_texts(row) for row in plain_rows(found.slice(0, _SAMPLES - len(samples)))]
        except OSError:
            # Arrow makes one of any error; DuckDB says which it is.
            again = self._connection.execute(query)
            while again.fetchmany(_ROWS_AT_ONCE):
                pass
            raise
        return WrongRows(rows=rows, samples=tuple(samples))

    def _answer(self, call: Callable[[], Answer]) -> Answer:
        """Makes a call in another thread: DuckDB would swallow what a signal raises into this one."""
        [answer] = self._lane.submit(call)
        try:
            # Second by second, as in `patience`.
            while wait([answer], timeout=1).not_done:
                pass
        except BaseException:
            self._connection.interrupt()
            wait([answer])
            raise
        return answer.result()


def _texts(row: dict[str, object]) -> dict[str, str | None]:
    return {name: None if value is None else str(value)[:_SAMPLE_CHARACTERS] for name, value in row.items()}
