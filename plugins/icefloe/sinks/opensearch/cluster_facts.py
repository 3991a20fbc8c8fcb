"""Facts that a cluster tells of itself; one that tells nobody is taken for OpenSearch."""

from collections.abc import Mapping
from typing import Any, Final

from icefloe.sinks.opensearch.cluster import Cluster

_NO_ID_YET: Final = "_na_"


def is_elasticsearch(cluster: Cluster) -> bool:
    """True if the cluster says that it is none of OpenSearch."""
    found = _facts(cluster).get("version")
    return isinstance(found, Mapping) and "number" in found and found.get("distribution") != "opensearch"


def cluster_uuid(cluster: Cluster) -> str | None:
    """The id that the cluster gave itself when it was formed; None if it tells nobody, or is not formed yet."""
    found = _facts(cluster).get("cluster_uuid")
    return found if isinstance(found, str) and found != _NO_ID_YET else None


def _facts(cluster: Cluster) -> Mapping[str, Any]:
    return cluster.ask("GET", "/", allowed=(401, 403, 404)).body
