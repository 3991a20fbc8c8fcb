"""JSON documents of rows, their ids, and rows read back."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from icefloe.changes.columns import ChangeColumns
from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import column_type, selected_fields
from icefloe.sinks.json_texts import JsonForm, is_binary_type, parsed_rows, parser, reading, row_texts
from icefloe.sinks.key_changes import document_ids
from icefloe.sinks.opensearch.cluster import Cluster, failed_copies, is_elasticsearch, missing_shards, stored_documents

DELETED: Final = "_deleted"
"""True in a document that only marks a deletion; other documents lack it."""
DELETED_AT: Final = "_deleted_at"
"""The time of the commit that deleted the row."""


def id_forms(schema: pa.Schema, identity: Sequence[str]) -> dict[str, str]:
    """The form of each identifier column's text; a batch with other forms needs another index."""
    return {name: _form(name, column_type(schema, name)) for name in identity}


def _form(name: str, kind: pa.DataType) -> str:
    # Promotions that Iceberg allows and that leave the text as it is, such as int to long, leave the form as it is.
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind):
        return "double"
    if pa.types.is_decimal(kind):
        return f"decimal with {kind.scale} places"
    if isinstance(kind, pa.UuidType):
        return "uuid"
    if is_binary_type(kind):
        return "base64"
    if pa.types.is_nested(kind):
        raise TerminalError(
            f"identifier column {name} is of type {kind}, which cannot be in the id of a document; choose columns of "
            "primitive types as identifier_columns",
            column=name,
        )
    return str(kind).removeprefix("large_")


def documents(rows: pa.RecordBatch) -> pa.Array:
    r"""A JSON object for each row, as large_string, with all columns in order.

    Nulls are null, but columns of unknown type have no field. Integers, finite floats and booleans are JSON's own. The
    rest is text: decimals, times, UUIDs, bytes (base64), and floats that are no numbers. A map is a list of objects
    with ``key`` and ``value``.

    >>> documents(pa.record_batch({"id": [7], "name": ['a "b"\n']})).to_pylist()
    ['{"id":7,"name":"a \\"b\\"\\n"}']
    """
    return row_texts(rows, JsonForm.DOCUMENT)


def deletion_markers(rows: pa.RecordBatch, deleted_at: pa.Array, identity: Sequence[str]) -> pa.Array:
    """A document for each deleted row: identifier columns, mark and time."""
    shown = pa.schema(selected_fields(rows.schema, identity))
    keys = rows.select(shown.names).cast(shown)
    marks = {DELETED: pa.repeat(True, rows.num_rows), DELETED_AT: deleted_at}
    return documents(pa.record_batch({**dict(zip(shown.names, keys.columns, strict=True)), **marks}))


_PAGE: Final = 1_000
_KEEP_ALIVE: Final = "5m"
_WHOLE_SEARCH: Final = {"allow_partial_search_results": "false"}
NOT_DELETED: Final = {"bool": {"must_not": [{"term": {DELETED: True}}]}}


def read_documents(
    cluster: Cluster, index: str, schema: pa.Schema, *, keys: pa.RecordBatch | None
) -> Iterator[pa.RecordBatch]:
    """The table's columns of a schema, one row per live document; without ``keys`` all rows, as of one moment."""
    wanted = pa.schema([field for field in schema if field.name not in ChangeColumns.ALL])
    for page in pages(cluster, index, NOT_DELETED) if keys is None else _of_keys(cluster, index, keys):
        sources = [each["_source"] for each in page if not each["_source"].get(DELETED)]
        if sources:
            yield rows_of_documents(sources, wanted, index=index)


def pages(cluster: Cluster, index: str, query: Mapping[str, Any]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """The documents of a query, as of one moment, with their ``_id``, ``_version`` and ``_source``."""
    cluster.ask("POST", f"/{index}/_refresh", unless=failed_copies)
    # The way to open and close a point in time, the name of its id, and the field by which hits are sorted.
    path, name, order, whole = "/_search/point_in_time", "pit_id", "_id", {"allow_partial_pit_creation": "false"}
    if is_elasticsearch(cluster):
        # Before 8.16 it refuses a parameter that says so, and all releases open no partial point by default.
        path, name, order, whole = "/_pit", "id", "_shard_doc", {}
    params = {"keep_alive": _KEEP_ALIVE, **whole}
    opened = cluster.ask("POST", f"/{index}{path}", params=params, has=(name,), unless=missing_shards)
    point = opened.body[name]
    try:
        after: Sequence[Any] | None = None
        while True:
            body: dict[str, Any] = {
                "size": _PAGE,
                "pit": {"id": point, "keep_alive": _KEEP_ALIVE},
                "sort": [{order: "asc"}],
                "track_total_hits": False,
                "version": True,
                "query": query,
                **({} if after is None else {"search_after": after}),
            }
            found = cluster.ask(
                "POST", "/_search", body, params=_WHOLE_SEARCH, allowed=(404,), has=("hits",), unless=missing_shards
            )
            if not found.is_success:
                raise TransientError(
                    f"{cluster.url} no longer shows {index} as it was when reading began ({found.fault}): a load has "
                    "replaced the index, or a node of the cluster went away; run again"
                )
            hits = found.body["hits"]["hits"]
            if not hits:
                return
            yield hits
            after = hits[-1]["sort"]
    finally:
        cluster.ask("DELETE", path, {name: point}, allowed=(404,))


def _of_keys(cluster: Cluster, index: str, keys: pa.RecordBatch) -> Iterator[Sequence[Mapping[str, Any]]]:
    for found in stored_documents(cluster, index, document_ids(keys, keys.schema.names).to_pylist()):
        yield [each for each in found if each["found"]]


def rows_of_documents(sources: Sequence[Mapping[str, Any]], schema: pa.Schema, *, index: str) -> pa.RecordBatch:
    """Rows of these columns; a missing field is null."""
    columns = []
    for field in schema:
        parse = parser(field.type, JsonForm.DOCUMENT)
        with reading(f"column {field.name} of index {index}"):
            rows = [{field.name: parse(source.get(field.name))} for source in sources]
            columns += parsed_rows(rows, pa.schema([field])).columns
    return pa.RecordBatch.from_arrays(columns, schema=schema)
