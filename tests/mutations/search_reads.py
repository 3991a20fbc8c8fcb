"""Mutations of the documents that the opensearch sink reads back or purges, and of answers that lack shards."""

from typing import Final

from mutations.mutation import Edit, Mutation

__all__ = ["SEARCH_READS"]

_SUITE: Final = tuple(
    f"tests/sinks/opensearch/test_{name}.py" for name in ("bulk", "indexes", "purge", "row_documents")
)
_CONFORMANCE: Final = "tests/sinks/opensearch/test_conformance.py::TestSoftDeletes"
_FOREIGN: Final = ("tests/sinks/opensearch/test_foreign_writes.py",)
_PURGE: Final = ("tests/sinks/opensearch/test_purge.py",)
_SHARDS: Final = ("tests/sinks/opensearch/test_missing_shards.py",)

SEARCH_READS: Final = (
    Mutation(
        name="documents that other programs wrote are not counted when an index is read back",
        path="sinks/opensearch/read_back.py",
        before='versions.update(each["_version"] for each in page)',
        after="pass",
        suite=_FOREIGN,
    ),
    Mutation(
        name="a purge fails for good if a load replaces its index",
        path="sinks/opensearch/present_index.py",
        before="                if latest is None or latest.target == begun.target:\n",
        after="                if True:\n",
        suite=_SUITE,
    ),
    Mutation(
        name="a purge at the moment a load begins fails for good",
        path="sinks/opensearch/present_index.py",
        before="        if self.names.version_of(begun.target) == begun.version:\n",
        after="        if False:\n",
        suite=_SUITE,
    ),
    Mutation(
        name="an answer that lacks some of the shards counts as one of the index",
        path="sinks/opensearch/cluster.py",
        before="(fault := unless(answer)):",
        after="(fault := unless(answer)) and False:",
        suite=_SHARDS,
    ),
    Mutation(
        name="a shard without a node is missing unnoticed because it has not failed",
        path="sinks/opensearch/cluster_answer.py",
        before='shards.get("total", 0) - shards.get("successful", 0)',
        after='shards.get("failed", 0)',
        suite=_SHARDS,
    ),
    Mutation(
        name="a page that was cut by a timeout counts as whole",
        path="sinks/opensearch/cluster_answer.py",
        before='if answer.body.get("timed_out"):',
        after="if False:",
        suite=_SHARDS,
    ),
    Mutation(
        name="a document whose shard is moving counts as missing",
        path="sinks/opensearch/stored_documents.py",
        before='next((each["error"] for each in found if "error" in each), None)',
        after="None",
        further=(
            Edit(path="sinks/opensearch/read_back.py", before='if each["found"]]', after='if each.get("found")]'),
            Edit(
                path="sinks/opensearch/conflicts.py",
                before='found["_version"] if found["found"] else None',
                after='found["_version"] if found.get("found") else None',
            ),
        ),
        suite=_SHARDS,
    ),
    Mutation(
        name="an index is shown before all of its shards are refreshed",
        path="sinks/opensearch/indexes.py",
        before='f"/{target}/_refresh", unless=failed_copies)',
        after='f"/{target}/_refresh")',
        suite=_SHARDS,
    ),
    Mutation(
        name="reading back fails for good if a load replaces the index",
        path="sinks/opensearch/read_back.py",
        before="params=_WHOLE_SEARCH, allowed=(404,), ",
        after="params=_WHOLE_SEARCH, ",
        suite=("tests/sinks/opensearch/test_elasticsearch.py",),
    ),
    Mutation(
        name="a row that came back is purged with the mark of its deletion",
        path="sinks/opensearch/deletions.py",
        before="pa.nulls(len(ids), pa.large_string()), version)",
        after="pa.nulls(len(ids), pa.large_string()), 1 << 62)",
        suite=_SUITE,
    ),
    Mutation(
        name="younger marks of deletions are purged too",
        path="sinks/opensearch/deletions.py",
        before='{"lt": moment}',
        after='{"gt": moment}',
        suite=_SUITE,
    ),
    Mutation(
        name="marks of deleted rows are read back as rows if their keys are asked for",
        path="sinks/opensearch/read_back.py",
        before='for each in page if not each["_source"].get(DELETED)]',
        after="for each in page]",
        suite=(f"{_CONFORMANCE}::test_some_keys_can_be_read_back",),
    ),
    Mutation(
        name="the mark of a row with a dead letter is purged",
        path="sinks/opensearch/deletions.py",
        before='if each["_id"] not in self.kept',
        after="if True",
        suite=_PURGE,
    ),
    Mutation(
        name="an index that forgets deletions at once is purged as it is",
        path="sinks/opensearch/opensearch_sink.py",
        before="        self._indexes.remember_deletions(begun.target)\n",
        after="",
        suite=_PURGE,
    ),
)
