"""Rows read back from an index."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from icefloe.changes.columns import CHANGE_COLUMNS
from icefloe.errors import TransientError
from icefloe.sinks.json_texts import JsonForm, parser
from icefloe.sinks.opensearch.cluster import Cluster, failed_copies, is_elasticsearch, missing_shards, stored_documents
from icefloe.sinks.opensearch.row_documents import DELETED, document_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class _PointCalls:
    """The requests of a point in time, which differ between OpenSearch and Elasticsearch.

    Attributes:
        path: to open it, after the index, and to close it.
        whole: the parameter that refuses missing shards; Elasticsearch always does.
        name: of its id in answers and requests.
        order: the sort field of hits; Elasticsearch may refuse ``_id``.
    """

    path: str
    whole: Mapping[str, str]
    name: str
    order: str


_PAGE: Final = 1_000
_KEEP_ALIVE: Final = "5m"
_OPENSEARCH: Final = _PointCalls(
    path="/_search/point_in_time", whole={"allow_partial_pit_creation": "false"}, name="pit_id", order="_id"
)
# Elasticsearch before 8.16 refuses a parameter that says so, and all releases open no other point by default.
_ELASTICSEARCH: Final = _PointCalls(path="/_pit", whole={}, name="id", order="_shard_doc")
_WHOLE_SEARCH: Final = {"allow_partial_search_results": "false"}
_NOT_DELETED: Final = {"bool": {"must_not": [{"term": {DELETED: True}}]}}


def read_documents(
    cluster: Cluster, index: str, schema: pa.Schema, *, keys: pa.RecordBatch | None, versions: Counter[int]
) -> Iterator[pa.RecordBatch]:
    """The table's columns of a schema, one row per live document.

    Args:
        schema: with or without change columns.
        keys: identifier columns of the only rows to be read; None: all rows, as of one moment.
    """
    wanted = pa.schema([field for field in schema if field.name not in CHANGE_COLUMNS])
    for page in pages(cluster, index, _NOT_DELETED) if keys is None else _of_keys(cluster, index, keys):
        versions.update(each["_version"] for each in page)
        sources = [each["_source"] for each in page if not each["_source"].get(DELETED)]
        if sources:
            yield rows_of_documents(sources, wanted)


def pages(cluster: Cluster, index: str, query: Mapping[str, Any]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """The documents of a query, as of one moment, with their ``_id``, ``_version`` and ``_source``."""
    cluster.ask("POST", f"/{index}/_refresh", unless=failed_copies)
    calls = _ELASTICSEARCH if is_elasticsearch(cluster) else _OPENSEARCH
    params = {"keep_alive": _KEEP_ALIVE, **calls.whole}
    opened = cluster.ask("POST", f"/{index}{calls.path}", params=params, has=(calls.name,), unless=missing_shards)
    point = opened.body[calls.name]
    try:
        after: Sequence[Any] | None = None
        while True:
            body: dict[str, Any] = {
                "size": _PAGE,
                "pit": {"id": point, "keep_alive": _KEEP_ALIVE},
                "sort": [{calls.order: "asc"}],
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
        cluster.ask("DELETE", calls.path, {calls.name: point}, allowed=(404,))


def _of_keys(cluster: Cluster, index: str, keys: pa.RecordBatch) -> Iterator[Sequence[Mapping[str, Any]]]:
    ids = document_ids(keys, keys.schema.names).to_pylist()
    for first in range(0, len(ids), _PAGE):
        found = stored_documents(cluster, index, ids[first : first + _PAGE])
        yield [each for each in found if each["found"]]


def rows_of_documents(sources: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of these columns; a missing field is null."""
    columns = []
    for field in schema:
        parse = parser(field.type, JsonForm.DOCUMENT)
        columns.append(pa.array([parse(source.get(field.name)) for source in sources], field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
