"""Which tests one process runs when several run at once, and in which order: the longest begin first."""

from collections.abc import Iterable
from typing import Any, Final

from xdist.scheduler import LoadScopeScheduling

__all__ = ["GroupScheduling", "group_of", "rank_of", "times_of_groups"]

_DAEMONS: Final = ("tests/e2e/", "tests/stack/test_delivery")
"""Several processes each, which need most of a core while they start: one file after another."""
_BROKER: Final = ("tests/servers/test_kafka", "tests/servers/test_debezium")
_STORES: Final = ("tests/servers/test_azure", "tests/servers/test_faulty_network", "tests/servers/test_https")
"""They need no cluster and no common catalog."""
_LONGEST: Final = (
    "tests/servers, others",
    "tests/spark, after test_m",
    "daemons",
    "tests/spark, up to test_m",
    "tests/histories",
    "tests/servers, Kafka",
    "tests/servers, stores",
    "tests/servers, OpenSearch",
    "tests/simulation/test_simulation.py",
    "tests/demo/test_run.py",
    "tests/faults/",
    "tests/sinks/opensearch/test_conformance.py",
    "tests/cli/test_kill.py",
    "tests/cli/test_unanswered.py",
    "tests/storage/test_clients.py",
    "tests/node/test_lost_nodes.py",
    "tests/dags/",
    "tests/redaction/test_",
)
"""Groups that would keep one process busy when all others are done, the longest first."""


def group_of(node_id: str) -> str:
    """The group of a test by its node id: tests that share a JVM, a server or tables.

    >>> group_of("tests/spark/test_types.py::test_a"), group_of("tests/cli/test_run.py::test_b[1]")
    ('tests/spark, after test_m', 'tests/cli/test_run.py')
    """
    file, _, _ = node_id.partition("::")
    if file.startswith("tests/histories/"):
        # They have one JVM, and the last test asks what all of them did together.
        return "tests/histories"
    if file.startswith("tests/spark/"):
        # Two JVMs: one would be the last to end.
        return "tests/spark, up to test_m" if file < "tests/spark/test_mo" else "tests/spark, after test_m"
    if file.startswith(_DAEMONS):
        return "daemons"
    if file.startswith(_BROKER):
        return "tests/servers, Kafka"
    if file.startswith(_STORES):
        return "tests/servers, stores"
    if file.startswith("tests/servers/test_opensearch"):
        return "tests/servers, OpenSearch"
    if file.startswith("tests/servers/"):
        # Each process that runs one of them starts a store, a catalog and perhaps a cluster.
        return "tests/servers, others"
    if file in ("tests/simulation/test_simulation.py", "tests/sinks/iceberg/test_histories.py"):
        # Each test takes seconds and shares nothing.
        return node_id
    if file == "tests/sinks/opensearch/test_conformance.py":
        # The suite once for each kind of sink.
        return node_id.rpartition("::")[0]
    return file


def rank_of(node_id: str) -> int:
    """The place of a test's group in the order; the many short groups are last.

    >>> rank_of("tests/e2e/test_page.py::test_a") < rank_of("tests/histories/test_cuts.py::test_a") < rank_of("a::b")
    True
    """
    group = group_of(node_id)
    return next((rank for rank, start in enumerate(_LONGEST) if group.startswith(start)), len(_LONGEST))


def times_of_groups(reports: Iterable[Any], most: int = 20) -> list[str]:
    """Lines with the groups that took longest: their processes, and seconds from the first test to their end.

    A group that begins late and is long keeps one process busy when all others are done: it belongs in the order above.
    """
    spans: dict[str, tuple[str, float, float]] = {}
    for report in reports:
        group, process = group_of(report.nodeid), report.node.gateway.id
        _, start, stop = spans.get(group, (process, report.start, report.stop))
        spans[group] = process, min(start, report.start), max(stop, report.stop)
    first = min((start for _, start, _ in spans.values()), default=0.0)
    longest = sorted(spans.items(), key=lambda each: each[1][1] - each[1][2])[:most]
    return [
        f"{process} {start - first:6.0f} to {stop - first:6.0f}  {group}" for group, (process, start, stop) in longest
    ]


class GroupScheduling(LoadScopeScheduling):
    """Hands out groups in the order in which their tests were collected."""

    def __init__(self, config: Any, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
