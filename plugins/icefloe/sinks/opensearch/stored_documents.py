"""Documents looked up by their ids, each as it is at this moment."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from icefloe.sinks.opensearch.cluster import Cluster, Pauses
from icefloe.sinks.opensearch.cluster_answer import Answer, reason_of

_LOOKED_UP: Final = 500
"""Documents in one request."""


def stored_documents(cluster: Cluster, name: str, ids: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """The document of each id in their order: ``_id``, ``found`` and, if it is there, ``_version`` and ``_source``.

    An id that is answered with an error, because its shard is moving, has a document or none: the cluster is asked
    again.

    Raises:
        ClusterSilentError: it is answered with an error for as long as the patience allows.
        IndexBlockedError: the index is closed.
        IndexGoneError: the index is missing.
    """
    for first in range(0, len(ids), _LOOKED_UP):
        yield from _looked_up(cluster, name, ids[first : first + _LOOKED_UP])


def _looked_up(cluster: Cluster, name: str, ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    pauses = Pauses()
    while True:
        answer = cluster.ask("POST", f"/{name}/_mget", {"ids": list(ids)}, has=("docs",))
        found: Sequence[Mapping[str, Any]] = answer.body["docs"]
        error = next((each["error"] for each in found if "error" in each), None)
        if error is None:
            return found
        cluster.refuse_index_error(name, error["type"], reason_of(error))
        if not pauses.wait():
            raise cluster.silent(Answer(status=503, body={}, fault=reason_of(error)))
