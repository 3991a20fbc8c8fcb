"""The rows of a table in a table of PostgreSQL: its owner, its batches, and one transaction for each of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final

import psycopg
import pyarrow as pa
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Composable, Identifier

from icefloe.documents import Document
from icefloe.errors import TerminalError
from icefloe.redaction.hidden import hide
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart, column_type
from icefloe.sinks.key_changes import document_ids
from icefloe.sinks.postgres.column_types import copied_rows, read_column, read_expression
from icefloe.sinks.postgres.database import Database, Transaction
from icefloe.sinks.postgres.target_table import (
    KEY,
    STAGED,
    PostgresTable,
    TableToken,
    comma_separated,
    copy_batch,
    copy_rows,
    types_of,
)
from icefloe.sinks.sink import (
    PartDelivery,
    Sink,
    checked_options,
    refuse_gap,
    refuse_load,
    refuse_lone_replay,
    refuse_other_record,
)
from icefloe.storage.store import Store

_PAGE_ROWS: Final = 10_000
_ALL: Final = SQL("")
_LACKING_RIGHTS: Final = """
select named from unnest(array['select', 'insert', 'update', 'delete']) as named
where not has_table_privilege(%s::oid, named)"""
_MOST_NAME_BYTES: Final = 50
"""PostgreSQL takes 63, and the table of a load has a longer name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresOptions(Document):
    """The keys of the sink, as in docs/pipeline_keys.md."""

    table: str
    url: str | None = None


class PostgresSink(Sink):
    """Brings each batch into a table by one transaction, in which the token says that it is there."""

    keyed: ClassVar[bool] = True
    reads_ranges: ClassVar[bool] = True
    commits_once: ClassVar[bool] = True

    def __init__(self, database: Database, table: str) -> None:
        self._database = database
        self._target = PostgresTable(table, url=f"{database.url}/{table}")

    @property
    def url(self) -> str:
        """``postgresql://<host>:<port>/<database>/<schema>.<table>``."""
        return self._target.url

    def check(self) -> None:
        """Make what is missing and try the rights, in a transaction that is rolled back."""
        with self._database.transaction() as transaction:
            transaction.execute("savepoint before")
            self._target.make_tokens(transaction)
            copy_rows(transaction, {KEY: "text"}, [])
            if (oid := self._target.oid(transaction)) is None:
                transaction.execute(SQL("create table {} ()").format(self._target.table))
            elif lacking := transaction.execute(_LACKING_RIGHTS, (oid,)).fetchall():
                rights = ", ".join(right for (right,) in lacking)
                raise TerminalError(f"the user of {self._database.url} lacks rights on {self.url}: grant {rights}")
            transaction.execute("rollback to before")

    def claim(self, origin: Origin, *, takes_over: bool = False, only_looks: bool = False) -> None:
        """Make the table's token. Nobody's rows are left alone."""
        target = self._target
        with self._database.transaction() as transaction:
            token, has_rows = target.token(transaction, locks=not only_looks), False
            if token is None:
                if not only_looks:
                    # Of two claims of nobody's table the second one finds the token of the first one.
                    transaction.execute("select pg_advisory_xact_lock(hashtext('icefloe claims a table'))")
                    target.make_tokens(transaction)
                # Before the token, because another claim and its rows may come between.
                has_rows = target.has_rows(transaction)
                token = target.token(transaction, locks=not only_looks)
            if token is not None and not (takes_over and token.owner != origin.owner):
                self._refuse_other(origin, token)
                return
            if token is None and has_rows and not takes_over:
                raise TerminalError(
                    f"{self.url} has rows and belongs to no pipeline: name another sink.table, or empty this one; if "
                    f"it was this pipeline's, restore its row in {target.schema}.icefloe_token",
                    owner="",
                )
            if not only_looks:
                before = TableToken(**asdict(origin), generation=0) if token is None else token
                target.put(transaction, replace(before, **asdict(origin), generation=before.generation + 1, fields={}))

    def begin(self, batch: ProvenBatch) -> Mapping[str, object]:
        """Look whether the batch is next, and whether its columns fit; nothing is written."""
        if not batch.identity or any(pa.types.is_nested(column_type(batch.schema, name)) for name in batch.identity):
            raise TerminalError(
                f"{self.url} has one row per key, and the identifier columns of table {batch.origin.table} are "
                f"{', '.join(batch.identity) or 'missing'}: set identifier_columns to columns of primitive types"
            )
        with self._database.transaction() as transaction:
            # Token and columns of one moment: another process may bring this very batch between the two looks.
            transaction.execute("set transaction isolation level repeatable read")
            self._target.changes(transaction, batch, self._owned(transaction, batch))
        return {}

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:  # noqa: ARG002
        """Bring the batch in one transaction, unless the token says that it is there."""
        with self._database.transaction() as transaction:
            token = self._owned(transaction, batch, locks=True)
            last = token.generation, batch.batch_number
            if token.last is not None and token.last > last:
                return PartDelivery(number=part.number, rows=part.rows, documents=0, superseded=part.rows)
            details = {"token": f"{self._target.schema}.icefloe_token: generation {last[0]}, batch {last[1]}"}
            delivery = partial(PartDelivery, number=part.number, rows=part.rows, details=details)
            if token.last == last:
                return delivery(documents=part.rows, repeated=part.rows)
            documents, size_bytes = copy_batch(transaction, batch, part)
            fields = self._target.bring(transaction, batch, token)
            told = replace(
                token, last=last, up_to_snapshot_id=batch.up_to_snapshot_id, end=batch.end,
                is_loading=batch.is_load and not batch.ends_load, oid=self._target.oid(transaction), fields=fields,
            )  # fmt: skip
            self._target.put(transaction, told)
        return delivery(documents=documents, bytes=size_bytes)

    def finish(self, batch: ProvenBatch, begun: Mapping[str, Any], deliveries: Sequence[PartDelivery]) -> None:
        """The transaction has shown everything."""

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of the table, by a cursor of the server."""
        yield from self._read(schema, keys=keys)

    def last_batch(self, origin: Origin) -> int | None:
        """The number in the token."""
        with self._database.transaction() as transaction:
            token = self._target.token(transaction, locks=False)
        if token is None:
            return None
        self._refuse_other(origin, token)
        refuse_load(self.url, is_loading=token.is_loading)
        return token.last[1] if token.last is not None and token.last[0] == token.generation else None

    def read_range(
        self, schema: pa.Schema, column: str, *, first: int | None, stop: int | None
    ) -> Iterator[pa.RecordBatch]:
        """Rows by the index of the key."""
        ends = {">=": first, "<": stop}
        tests = [f"{{0}} {sign} {end}" for sign, end in ends.items() if end is not None] or ["true"]
        nulls = " or {0} is null" if first is None else ""
        yield from self._read(schema, where=SQL(f" where {' and '.join(tests)}{nulls}").format(Identifier(column)))

    def _read(
        self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None, where: Composable = _ALL
    ) -> Iterator[pa.RecordBatch]:
        with self._database.transaction() as transaction:
            if self._target.oid(transaction) is None:
                return
            # Holds off changes of the columns until the cursor is done.
            transaction.execute(SQL("lock {} in access share mode").format(self._target.table))
            held = self._target.columns(transaction)
            present = [each for each in schema if each.name in held and not pa.types.is_null(each.type)]
            forms: list[Any] = [read_expression(each.type) for each in present]
            read = [SQL(form).format(Identifier(each.name)) for form, each in zip(forms, present, strict=True)]
            query = SQL("select {} from {}").format(SQL(", ").join([*read, SQL("1")]), self._target.table)
            if keys is not None:
                if not {*keys.schema.names} <= held.keys() - ({*keys.schema.names} if KEY in held else set()):
                    keys = pa.record_batch({KEY: document_ids(keys, keys.schema.names)})
                copy_rows(transaction, types_of(keys.schema), [copied_rows(keys)])
                names = comma_separated(keys.schema.names)
                query += SQL(" where ({}) in (select {} from {})").format(names, names, STAGED)
            query += where
            cursor = transaction.cursor(name="icefloe")
            cursor.execute(query)
            while page := cursor.fetchmany(_PAGE_ROWS):
                values = dict(zip((each.name for each in present), zip(*page, strict=True), strict=False))
                columns = [
                    read_column(values[each.name], each.type, place=f"column {each.name} of {self.url}")
                    if each.name in values
                    else pa.nulls(len(page), each.type)
                    for each in schema
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def close(self) -> None:
        """Nothing is open."""

    def _owned(self, transaction: Transaction, batch: ProvenBatch, *, locks: bool = False) -> TableToken:
        """The token, if the batch may come now."""
        name, token = batch.origin.pipeline, self._target.token(transaction, locks=locks)
        reset = f"run `icefloe reset {name}`, which loads the table again"
        tokens = f"{self._target.schema}.icefloe_token"
        if token is None:
            raise TerminalError(
                f"{self.url} has lost its row in {tokens} after pipeline {name} began to write to it: restore it, or "
                f"{reset}"
            )
        self._refuse_other(batch.origin, token)
        last = token.last
        refuse_other_record(
            batch, last, token.generation, place=self.url,
            elsewhere=f"the database is another one, or {tokens} was edited; correct the sink",
            is_filled=lambda: self._target.has_rows(transaction), last_end=token.end,
        )  # fmt: skip
        if last is None or batch.begins_anew:
            refuse_lone_replay(batch, is_unfit=last is None, place=self.url)
            return token
        if token.oid is not None and token.oid != self._target.oid(transaction):
            raise TerminalError(
                f"{self.url} was dropped, renamed, or made again, perhaps from a dump, after batch {last[1]} of "
                f"pipeline {name}: bring it back, or {reset}"
            )
        end = token.up_to_snapshot_id
        refuse_gap(batch, last, end, token.generation, is_loading=token.is_loading, place=self.url)
        return token

    def _refuse_other(self, origin: Origin, token: TableToken) -> None:
        record = f"its row in {self._target.schema}.icefloe_token"
        origin.refuse_other(token, place=self.url, record=record, key="sink.table of its own")


def open_postgres_sink(
    options: Mapping[str, object],
    *,
    connection: Mapping[str, Any],
    open_store: Callable[[str], Store],  # noqa: ARG001 - nothing is kept beside the table
) -> PostgresSink:
    """The sink of a pipeline; arguments as in `open_sink`."""
    checked = checked_options(PostgresOptions, options, sink_type="postgres")
    if len(checked.table.partition(".")[2].encode()) > _MOST_NAME_BYTES:
        raise TerminalError(
            f"the name of sink.table {checked.table} is longer than {_MOST_NAME_BYTES} bytes: shorten it",
            key="sink.table",
        )
    return PostgresSink(Database(_access(checked.url, connection)), checked.table)


def _access(url: str | None, connection: Mapping[str, Any]) -> dict[str, object]:
    """The parameters of libpq."""
    extra = connection.get("extra") or {}
    hide({"password": connection.get("password"), **extra}, only_secrets=True)
    named = {"host": "host", "port": "port", "schema": "dbname", "login": "user", "password": "password"}
    try:
        in_url = conninfo_to_dict(url or "")
        make_conninfo(**extra)
    except psycopg.ProgrammingError:
        # The client's error may quote a password.
        raise TerminalError(
            "sink.url is no URL such as postgresql://icefloe@db.example:5432/shop, or the extra of the connection of "
            f"sink.conn_id has other keys than parameters of libpq ({', '.join(sorted(extra)) or 'none'}): correct it",
            key="sink.url",
        ) from None
    if {"password", "sslpassword"} & in_url.keys():
        raise TerminalError(
            "sink.url has a password: write it into an Airflow connection, and its name into sink.conn_id",
            key="sink.url",
        )
    merged = {**{name: connection.get(key) for key, name in named.items()}, **extra, **in_url}
    # A mounted secret ends in a line break.
    plain = {name: value.strip("\r\n") if isinstance(value, str) else value for name, value in merged.items()}
    access = {name: value for name, value in plain.items() if value not in (None, "")}
    if "host" not in access:
        raise TerminalError(
            "sink names no PostgreSQL; write `url`, or `conn_id` of an Airflow connection with a host", key="sink"
        )
    return access
