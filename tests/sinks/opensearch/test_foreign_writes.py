"""Documents that another program wrote, which raises their versions: `_update_by_query` does."""

from typing import Any

import pytest

from icefloe.errors import TerminalError
from sinks.opensearch.batches import changes, part, proven, run
from sinks.opensearch.sinks import claimed
from support.sinks.fake_cluster import FakeCluster

UPDATE = part(changes(("<", 1, "Ada"), (">", 1, "Bea")))
UPDATED: dict[str, Any] = {"counts": {"update_before": 1, "update_after": 1}}


def cluster_with_ada(**options: Any) -> tuple[FakeCluster, Any]:
    """A cluster with one document, and the sink that wrote it."""
    cluster = FakeCluster()
    sink = claimed(cluster, **options)
    run(sink, proven(0), part(changes(("+", 1, "Ada"))))
    return cluster, sink


@pytest.mark.parametrize("duplicates", ["fail", "keep_one"])
@pytest.mark.parametrize("updates", [1, 2])
def test_a_batch_cannot_write_a_document_whose_version_another_program_raised(duplicates: str, updates: int) -> None:
    cluster, sink = cluster_with_ada(duplicates=duplicates)
    cluster.update_by_query("people", times=updates)
    with pytest.raises(TerminalError, match=r"another program wrote or deleted document 1:1 and .* batch 1 cannot"):
        run(sink, proven(1, **UPDATED), UPDATE)


def test_a_deletion_by_another_program_is_no_later_batch() -> None:
    cluster, sink = cluster_with_ada()
    cluster.delete_by_query("people")
    with pytest.raises(TerminalError):
        run(sink, proven(1, **UPDATED), UPDATE)


def test_a_mark_of_a_deletion_that_another_program_wrote_is_no_row_of_the_batch() -> None:
    cluster, sink = cluster_with_ada(duplicates="keep_one")
    run(sink, proven(1, counts={"delete": 1}), part(changes(("-", 1, "Ada"))))
    cluster.update_by_query("people")
    with pytest.raises(TerminalError):
        run(sink, proven(2, counts={"insert": 1}), part(changes(("+", 1, "Cleo"))))
