"""Mutations of the indexes of the opensearch sink: claims, loads, mappings and the order of batches."""

from typing import Final

from mutations.mutation import Edit, Mutation

__all__ = ["SEARCH_INDEX"]

_SINK: Final = "sinks/opensearch/opensearch_sink.py"
_BATCH_INDEX: Final = "sinks/opensearch/batch_index.py"
_SUITE: Final = tuple(
    f"tests/sinks/opensearch/test_{name}.py" for name in ("bulk", "indexes", "purge", "row_documents")
)
_CONFORMANCE: Final = "tests/sinks/opensearch/test_conformance.py::TestSoftDeletes"
_EMPTY: Final = ("tests/servers/test_opensearch_pipelines.py",)
_COLUMNS: Final = ("tests/sinks/opensearch/test_known_columns.py",)
_LATE: Final = ("tests/sinks/opensearch/test_late_batches.py",)
_OTHERS: Final = "tests/sinks/opensearch/test_other_answers.py"
_RESTORED: Final = ("tests/sinks/opensearch/test_restored.py",)

SEARCH_INDEX: Final = (
    Mutation(
        name="versions of an index do not grow when it changes its owner",
        path="sinks/opensearch/index_names.py",
        before="return generation << 32 | batch_number",
        after="return batch_number",
        suite=(f"{_CONFORMANCE}::test_a_destination_that_is_taken_over_belongs_to_the_new_origin",),
    ),
    Mutation(
        name="an index of another pipeline is written to",
        path="sinks/opensearch/claims.py",
        before="if found.origin.owner != origin.owner:\n            raise",
        after="if False:\n            raise",
        suite=(f"{_CONFORMANCE}::test_another_origin_is_refused",),
    ),
    Mutation(
        name="a claim that changed meanwhile is taken over all the same",
        path="sinks/opensearch/claims.py",
        before="params=found.revision,",
        after="params={},",
        suite=_LATE,
    ),
    Mutation(
        name="a batch begins after a later one",
        path="sinks/opensearch/claims.py",
        before="return noted.status != 409",
        after="return True",
        further=(
            Edit(
                path=_BATCH_INDEX,
                before="if before is not None and before.version > version and not batch.is_replay:",
                after="if False:",
            ),
        ),
        suite=_SUITE,
    ),
    Mutation(
        name="the middle of a pipeline begins on an empty cluster",
        path=_BATCH_INDEX,
        before="if batch.continues or self._would_replace(batch):",
        after="if False:",
        suite=_EMPTY,
    ),
    Mutation(
        name="a batch goes on in a cluster that was restored as a whole",
        path=_BATCH_INDEX,
        before="if last is not None and found < last:",
        after="if False:",
        suite=_RESTORED,
    ),
    Mutation(
        name="a batch goes on in an index that was restored alone",
        path=_BATCH_INDEX,
        before="if None not in (uuid, before.uuid) and uuid != before.uuid:",
        after="if False:",
        suite=_RESTORED,
    ),
    Mutation(
        name="a restore over a closed index is not noticed",
        path="sinks/opensearch/found_index.py",
        before="for each in (found, history) if each)",
        after="for each in (found,) if each)",
        suite=_RESTORED,
    ),
    Mutation(
        name="an index is not known again after it was brought the batches that it lacked",
        path=_BATCH_INDEX,
        before="if uuid != noted.uuid and is_latest and not",
        after="if uuid != noted.uuid and not batch.is_replay and not",
        suite=_RESTORED,
    ),
    Mutation(
        name="a replay into an index without a claim replaces it",
        path=_BATCH_INDEX,
        before="batch.continues or self._would_replace(batch)",
        after="batch.continues",
        suite=_LATE,
    ),
    Mutation(
        name="versions of an index begin at 0 after its claim was lost",
        path=_SINK,
        before="first_generation = self._indexes.next_generation()",
        after="first_generation = 0",
        suite=_LATE,
    ),
    Mutation(
        name="a replay goes to the index of a later load",
        path=_BATCH_INDEX,
        before="if before is not None and not self._is_of_load(before.target, version):",
        after="if False:",
        suite=_LATE,
    ),
    Mutation(
        name="a load is shown before its last part",
        path=_SINK,
        before="if not batch.is_load or batch.ends_load:",
        after="if True:",
        suite=_LATE,
    ),
    Mutation(
        name="a batch that replaces nothing is written among documents of the owner before",
        path=_BATCH_INDEX,
        before="        if not (batch.begins_anew or batch.is_replay):",
        after="        if False:",
        suite=("tests/sinks/opensearch/test_late_batches.py",),
    ),
    Mutation(
        name="a late load takes the name from a later one",
        path=_SINK,
        before="        self._batch_index.refuse_superseded(batch, begun)\n        if not batch",
        after="        if not batch",
        further=(
            Edit(
                path="sinks/opensearch/indexes.py",
                before="if any((each.version or 0) > version for each in shown.values()):",
                after="if False:",
            ),
        ),
        suite=_SUITE,
    ),
    Mutation(
        name="an index that a later load removed is an error and not a late batch",
        path=_BATCH_INDEX,
        before="        except IndexGoneError:\n            self.refuse_superseded(batch, begun)\n",
        after="        except IndexGoneError:\n",
        suite=_SUITE,
    ),
    Mutation(
        name="a reload goes into an index that a user made",
        path=_BATCH_INDEX,
        before="if own.is_known and batch.begins_anew:",
        after="if False:",
        suite=_SUITE,
    ),
    Mutation(
        name="an index with documents of others is claimed",
        path="sinks/opensearch/index_checks.py",
        before="if not may_be_empty or self._count(index.name):",
        after="if False:",
        suite=_SUITE,
    ),
    Mutation(
        name="a first batch without a load that was killed before it made its index never makes it",
        path=_BATCH_INDEX,
        before=" or target == self._names.of_load(version)\n",
        after="\n",
        suite=_SUITE,
    ),
    Mutation(
        name="a sink is read back that has never seen a batch",
        path="batch/verify/verify_delivery.py",
        before="    if not session.checkpoint.has_delivered(before=view.next_number):\n",
        after="    if False:\n",
        suite=("tests/batch/verify/test_verify_delivery.py",),
    ),
    Mutation(
        name="an index that was removed in the middle of a pipeline is made again",
        path="sinks/opensearch/indexes.py",
        before="            if not is_new:\n                raise IndexGoneError.of(self._cluster.url, target)\n",
        after="",
        suite=_SUITE,
    ),
    Mutation(
        name="an index that was removed in the middle of its load is made again",
        path="sinks/opensearch/indexes.py",
        before="if uuid is not None and (found is None or found.uuid != uuid):",
        after="if False:",
        suite=_SUITE,
    ),
    Mutation(
        name="an index that a user made again counts as the one before",
        path=_BATCH_INDEX,
        before="if not (own.is_known or is_first or batch.begins_anew):",
        after="if False:",
        suite=_SUITE,
    ),
    Mutation(
        name="an index of another sink counts as one of this sink",
        path="sinks/opensearch/found_index.py",
        before='return found if found.get("index") == self.names.index else None',
        after="return found or None",
        suite=_SUITE,
    ),
    Mutation(
        name="documents with ids of another form go into the same index",
        path="sinks/opensearch/index_checks.py",
        before='if facts is not None and facts["identity"] != identity:',
        after="if False:",
        suite=_SUITE,
    ),
    Mutation(
        name="a column that was dropped and added again goes on in the documents of the old one",
        path="sinks/opensearch/known_columns.py",
        before="if known.get(name, field_id) != field_id), None)",
        after="if False), None)",
        suite=_COLUMNS,
    ),
    Mutation(
        name="a new column with an initial default is missing in older documents",
        path="sinks/opensearch/known_columns.py",
        before="for name in sorted(batch.defaulted) if name not in known",
        after="for name in () if name not in known",
        suite=_COLUMNS,
    ),
    Mutation(
        name="an index without documents refuses a column of another id",
        path="sinks/opensearch/index_checks.py",
        before=" or not self._count(index.name):\n",
        after=":\n",
        suite=_COLUMNS,
    ),
    Mutation(
        name="an index forgets the columns that a batch does not have",
        path="sinks/opensearch/found_index.py",
        before="columns = {**known, **known_columns(batch)}",
        after="columns = known_columns(batch)",
        suite=_COLUMNS,
    ),
    Mutation(
        name="a sink does not learn the field ids of a batch",
        path="batch/deliver/proven_batch.py",
        before="field_ids={} if columns is None else columns.field_ids,",
        after="field_ids={},",
        suite=("tests/batch/verify/test_verify_delivery.py",),
    ),
    Mutation(
        name="an index may forget deletions within a minute",
        path="sinks/opensearch/index_checks.py",
        before='if self.settings.deletes == "hard" and index.forgets_soon:',
        after="if False:",
        suite=_SUITE,
    ),
    Mutation(
        name="indexes of earlier loads stay",
        path="sinks/opensearch/indexes.py",
        before="        self._remove_older(version)\n",
        after="",
        suite=_SUITE,
    ),
    Mutation(
        name="a search finds the marks of deleted rows",
        path="sinks/opensearch/indexes.py",
        before='filtered = {"filter": _NOT_DELETED} if self._settings.deletes == "soft" else {}',
        after="filtered: dict[str, Any] = {}",
        suite=_SUITE,
    ),
    Mutation(
        name="a page in place of an answer of the cluster is a defect",
        path="sinks/opensearch/cluster.py",
        before="            return Answer(status=0, body={}, fault=_NO_JSON)\n",
        after="            raise\n",
        suite=(f"{_OTHERS}::test_a_page_or_a_cut_answer_is_no_answer_and_is_not_quoted",),
    ),
    Mutation(
        name="another service at the address counts as a search cluster",
        path="sinks/opensearch/cluster.py",
        before="            if answer.is_success and missing:",
        after="            if False:",
        suite=(f"{_OTHERS}::test_a_place_that_is_no_search_cluster_is_refused_before_the_first_run",),
    ),
)
