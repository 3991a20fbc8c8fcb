"""The target: a table in a schema, its token, and statements that bring rows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

import pyarrow as pa
from psycopg.sql import SQL, Composed, Identifier

from icefloe.documents import LEFT_OUT_IF_EMPTY, LEFT_OUT_IF_NONE, SnapshotId, dump_document, load_document
from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.key_changes import document_ids, key_operations, shown_key
from icefloe.sinks.postgres.column_types import column_type_name, copied_rows, row_with_nul
from icefloe.sinks.postgres.database import Transaction
from icefloe.sinks.postgres.target_columns import ColumnChanges, column_changes

KEY: Final = "_icefloe_key"  # the key of rows whose identifier columns are not columns of the target
_LOAD: Final = "icefloe gathers the rows of a load here"  # the comment on such a table
LIVE: Final = "_icefloe_live"  # false in a copied row whose key has no row any more
STAGED: Final = Identifier("pg_temp", "icefloe_rows")  # the rows that a transaction has copied
_COLUMNS: Final = """
select attname, format_type(atttypid, atttypmod) from pg_attribute
where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped order by attnum"""
_UNIQUE_INDEXES: Final = """
select (select array_agg(attname::text) from pg_attribute
where attrelid = indrelid and attnum = any((indkey::int2[])[0:indnkeyatts - 1]))
from pg_index where indrelid = to_regclass(%s) and indisunique and indisvalid and indimmediate and indpred is null
and indexprs is null
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableToken(Origin):
    """Whose table it is, and what it holds; set in the transaction that brings a batch."""

    version: Literal[1] = 1
    generation: int = 1  # one more with each take-over; its batches are later
    last: Annotated[tuple[int, int] | None, LEFT_OUT_IF_NONE] = None  # generation and number of the last batch
    up_to_snapshot_id: Annotated[SnapshotId | None, LEFT_OUT_IF_NONE] = None  # of the source, after it
    end: Annotated[str | None, LEFT_OUT_IF_NONE] = None  # of the last batch, as ``ProvenBatch.end``
    is_loading: Annotated[bool, LEFT_OUT_IF_EMPTY] = False  # after a batch of a load that is not its last one
    oid: Annotated[int | None, LEFT_OUT_IF_NONE] = None  # of the table with the rows of earlier batches
    # Dotted names in the table by field id of the source.
    fields: Annotated[Mapping[int, str], LEFT_OUT_IF_EMPTY] = field(default_factory=dict)


class PostgresTable:
    """A table of a schema, the table that gathers its loads, and its row in the table of tokens."""

    def __init__(self, name: str, *, url: str) -> None:
        self.schema, _, self._name = name.partition(".")
        self.url = url
        self.table = Identifier(self.schema, self._name)
        self._load = Identifier(self.schema, f"{self._name}_icefloe_load")
        self._tokens = Identifier(self.schema, "icefloe_token")

    def oid(self, transaction: Transaction, table: Identifier | None = None) -> int | None:
        """The table's number; None: there is no table."""
        named = (table or self.table).as_string(None)
        [(oid,)] = transaction.execute("select to_regclass(%s)::oid::bigint", (named,))
        return None if oid is None else int(oid)

    def columns(self, transaction: Transaction) -> dict[str, str]:
        """The types of the table's columns by name; empty if there is no table."""
        return dict(transaction.execute(_COLUMNS, (self.table.as_string(None),)))

    def has_rows(self, transaction: Transaction) -> bool:
        """True if there is a table with rows."""
        query = SQL("select 1 from {} limit 1").format(self.table)
        return self.oid(transaction) is not None and transaction.execute(query).fetchone() is not None

    def make_tokens(self, transaction: Transaction) -> None:
        """Make the table of tokens."""
        # `create table if not exists` wants the right to create also if the table exists.
        if self.oid(transaction, self._tokens) is None:
            create = "create table {} (table_name text primary key, token text not null)"
            transaction.execute(SQL(create).format(self._tokens))

    def token(self, transaction: Transaction, *, locks: bool) -> TableToken | None:
        """The token; None: the table is nobody's."""
        if self.oid(transaction, self._tokens) is None:
            return None
        query = SQL("select token from {} where table_name = %s {}")
        lock = SQL("for update" if locks else "")
        found = transaction.execute(query.format(self._tokens, lock), (self._name,)).fetchone()
        return load_document(TableToken, found[0].encode(), what=f"the token of {self.url}") if found else None

    def put(self, transaction: Transaction, token: TableToken) -> None:
        """Set the token."""
        upsert = "insert into {} values (%s, %s) on conflict (table_name) do update set token = excluded.token"
        transaction.execute(SQL(upsert).format(self._tokens), (self._name, dump_document(token).decode()))

    def bring(self, transaction: Transaction, batch: ProvenBatch, token: TableToken) -> Mapping[int, str]:
        """Bring the copied rows, and return the fields of the token.

        A load of several batches is gathered in a table of its own. Its last batch replaces the rows of the target: not
        by a rename, which would lose the grants and indexes of the target, and the views on it.
        """
        source, replaces = STAGED, batch.begins_anew
        if batch.begins_anew or batch.is_load:
            self._refuse_foreign_load(transaction)
        if batch.begins_anew:
            transaction.execute(SQL("drop table if exists {}").format(self._load))
        if batch.is_load and not (batch.begins_anew and batch.ends_load):
            if batch.begins_anew:
                transaction.execute(SQL("create table {} (like {})").format(self._load, STAGED))
                transaction.execute(SQL("comment on table {} is {}").format(self._load, _LOAD))
            transaction.execute(SQL("insert into {} select * from {}").format(self._load, STAGED))
            if not batch.ends_load:
                return token.fields
            source, replaces = self._load, True
        changes = self._evolve(transaction, batch, token)
        keys, written = key_names(batch), {name: Identifier(name) for name in wanted_types(batch)}
        # A dropped column is null from now on.
        read: dict[str, Any] = {**dict.fromkeys(changes.dropped, SQL("null")), **written}
        insert = SQL("insert into {} ({}) select {} from {} where {}").format(
            self.table, comma_separated(read), SQL(", ").join(read.values()), source, Identifier(LIVE)
        )
        if replaces:
            transaction.execute(SQL("delete from {}").format(self.table))
        else:
            same = SQL(" and ").join(SQL("held.{0} = rows.{0}").format(Identifier(name)) for name in keys)
            delete = "delete from {} held using {} rows where not rows.{} and {}"
            transaction.execute(SQL(delete).format(self.table, source, Identifier(LIVE), same))
            setting = [SQL("{0} = excluded.{0}").format(Identifier(name)) for name in read if name not in keys]
            reaction = SQL("update set {}").format(SQL(", ").join(setting)) if setting else SQL("nothing")
            insert += SQL(" on conflict ({}) do {}").format(comma_separated(keys), reaction)
        transaction.execute(insert)
        if source is self._load:
            transaction.execute(SQL("drop table {}").format(self._load))
        return changes.fields

    def _refuse_foreign_load(self, transaction: Transaction) -> None:
        oid = self.oid(transaction, self._load)
        [(comment,)] = transaction.execute("select obj_description(%s::oid, 'pg_class')", (oid,))
        if oid is not None and comment != _LOAD:
            raise TerminalError(
                f"{self.url}_icefloe_load has the name of the table that gathers loads of {self._name}, and is not it: "
                "rename it, or name another sink.table"
            )

    def _evolve(self, transaction: Transaction, batch: ProvenBatch, token: TableToken) -> ColumnChanges:
        """Make the table, or change its columns."""
        changes = self.changes(transaction, batch, token)
        if self.oid(transaction) is None:
            columns, names = defined(wanted_types(batch)), comma_separated(key_names(batch))
            transaction.execute(SQL("create table {} ({}, primary key ({}))").format(self.table, columns, names))
            return changes
        # Two columns may have swapped their names.
        passing = [f"icefloe_renames_{place}" for place in range(len(changes.renamed))]
        pairs = [*zip(changes.renamed, passing, strict=True), *zip(passing, changes.renamed.values(), strict=True)]
        for pair in pairs:
            rename = SQL("alter table {} rename column {} to {}")
            transaction.execute(rename.format(self.table, *map(Identifier, pair)))
        for form, kinds in (("add column {} {}", changes.added), ("alter column {} type {}", changes.widened)):
            if kinds:
                transaction.execute(SQL("alter table {} {}").format(self.table, defined(kinds, form)))
        return changes

    def changes(self, transaction: Transaction, batch: ProvenBatch, token: TableToken) -> ColumnChanges:
        """The changes that the columns of a batch need."""
        keeps_rows = not batch.begins_anew and not batch.is_load
        for name in sorted(batch.defaulted) if keeps_rows and token.fields else ():
            is_shown = any(name == top or name.startswith(f"{top}.") for top in batch.shown_schema.names)
            if is_shown and name in batch.field_ids and batch.field_ids[name] not in token.fields:
                raise TerminalError(
                    f"column {name} was added with an initial default, which earlier rows of {self.url} lack: run "
                    f"`icefloe reset {batch.origin.pipeline}`, which loads the table again", column=name,
                )  # fmt: skip
        held, keys = self.columns(transaction), key_names(batch)
        changes = column_changes(
            held, wanted_types(batch), batch.field_ids, token.fields, keeps_rows=keeps_rows, keys=keys, place=self.url
        )
        indexes = transaction.execute(_UNIQUE_INDEXES, (self.table.as_string(None),)).fetchall()
        if held and {*keys} not in [{changes.renamed.get(name, name) for name in names} for (names,) in indexes]:
            raise TerminalError(
                f"{self.url} has no primary key or unique index of {', '.join(keys)} alone, by which its rows are "
                "found: add one, or drop the table, or name another sink.table"
            )
        return changes


def copy_rows(transaction: Transaction, types: Mapping[str, str], blocks: Iterable[bytes]) -> tuple[int, int]:
    """Copy rows into the temporary table of a transaction; returns their number and bytes."""
    transaction.execute(SQL("create temporary table icefloe_rows ({}) on commit drop").format(defined(types)))
    sent = 0
    with transaction.cursor() as cursor:
        with cursor.copy(SQL("copy {} from stdin (format csv)").format(STAGED)) as copy:
            for block in blocks:
                copy.write(block)
                sent += len(block)
        return cursor.rowcount, sent


def copy_batch(transaction: Transaction, batch: ProvenBatch, part: StagedPart) -> tuple[int, int]:
    """Copy one row for each key that a batch changes; returns their number and bytes."""

    def blocks() -> Iterator[bytes]:
        for operations in key_operations(part.read, identity=batch.identity, hash_key=batch.hash_key):
            shown = batch.shown_rows(operations.rows)
            if found := row_with_nul(shown):
                key = shown_key(operations.rows.slice(found[1], 1), batch.identity)
                raise TerminalError(
                    f"column {found[0]} has a NUL in the row with the key {key}, which PostgreSQL does not store: "
                    "leave the column out by `columns`, or such rows by `filter`, then run `icefloe reset`",
                    column=found[0],
                )  # fmt: skip
            key_column = {KEY: document_ids(operations.rows, batch.identity)} if key_names(batch) == (KEY,) else {}
            columns = {name: shown.column(name) for name in types_of(shown.schema)}
            yield copied_rows(pa.record_batch({**key_column, **columns, LIVE: pa.array(operations.is_live)}))

    return copy_rows(transaction, wanted_types(batch) | {LIVE: "boolean"}, blocks())


def key_names(batch: ProvenBatch) -> tuple[str, ...]:
    """The columns of the target by which its rows are found."""
    return batch.identity if {*batch.identity} <= {*batch.shown_schema.names} else (KEY,)


def wanted_types(batch: ProvenBatch) -> dict[str, str]:
    """The types of the columns that a batch writes."""
    types = types_of(batch.shown_schema)
    if ours := types.keys() & {KEY, LIVE}:
        raise TerminalError(
            f"column {min(ours)} of table {batch.origin.table} has the name of a column of the sink: rename it in the "
            "table, or leave it out of `columns`"
        )
    return ({KEY: "text"} if key_names(batch) == (KEY,) else {}) | types


def types_of(schema: pa.Schema) -> dict[str, str]:
    """The types of columns; one of unknown type has no values yet."""
    return {each.name: column_type_name(each.name, each.type) for each in schema if not pa.types.is_null(each.type)}


def comma_separated(names: Iterable[str]) -> Composed:
    """Names with commas between."""
    return SQL(", ").join(map(Identifier, names))


def defined(types: Mapping[str, str], form: Any = "{} {}") -> Composed:
    """Definitions of columns."""
    kinds: Mapping[str, Any] = types
    return SQL(", ").join(SQL(form).format(Identifier(name), SQL(kind)) for name, kind in kinds.items())
