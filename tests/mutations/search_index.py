"""Mutations of the opensearch sink: versions, claims, indexes of loads, refusals, dead letters, and reading back."""

from typing import Final

from mutations.mutation import Edit, Mutation

__all__ = ["SEARCH_INDEX"]

_SINK: Final = "sinks/opensearch/opensearch_sink.py"
_SUITE: Final = tuple(
    f"tests/sinks/opensearch/test_{name}.py" for name in ("bulk", "indexes", "purge", "row_documents")
)
_CONFORMANCE: Final = "tests/sinks/opensearch/test_conformance.py::TestSoftDeletes"
_EMPTY: Final = ("tests/servers/test_opensearch_pipelines.py",)
_LATE: Final = ("tests/sinks/opensearch/test_late_batches.py",)
_FOREIGN: Final = ("tests/sinks/opensearch/test_foreign_writes.py",)
_KEYS: Final = ("tests/sinks/test_key_changes.py",)

SEARCH_INDEX: Final = (
    Mutation(
        name="a document of our own version with another content counts as repeated",
        path="sinks/opensearch/conflicts.py",
        before='if document is not None and _is_content(json.loads(document), found["_source"]):',
        after="if document is not None:",
        suite=_SUITE,
    ),
    Mutation(
        name="a conflict that is gone when it is looked at is not sent again",
        path="sinks/opensearch/conflicts.py",
        before='            return "again"',
        after='            return "repeated"',
        suite=_LATE,
    ),
    Mutation(
        name="a live batch goes on over documents of a later batch",
        path="sinks/opensearch/conflicts.py",
        before="        raise superseded(self.url, self.batch)\n\n    @property",
        after='        return "superseded"\n\n    @property',
        suite=_LATE,
    ),
    Mutation(
        name="a document that another program wrote counts as another row of the key",
        path="sinks/opensearch/conflicts.py",
        before='if self._has_keys_in_one_part or DELETED in found["_source"]:',
        after="if False:",
        suite=_FOREIGN,
    ),
    Mutation(
        name="a document that another program wrote counts as one of a later batch",
        path="sinks/opensearch/conflicts.py",
        before="if latest is not None and (latest <= self.version if version is None else latest < version):",
        after="if False:",
        suite=_FOREIGN,
    ),
    Mutation(
        name="documents that other programs wrote are not counted when an index is read back",
        path="sinks/opensearch/read_back.py",
        before='versions.update(each["_version"] for each in page)',
        after="pass",
        suite=_FOREIGN,
    ),
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
        name="a batch begins behind a later one",
        path="sinks/opensearch/claims.py",
        before="return noted.status != 409",
        after="return True",
        further=(
            Edit(
                path=_SINK,
                before="if before is not None and before.version > version:",
                after="if False:",
            ),
        ),
        suite=_SUITE,
    ),
    Mutation(
        name="the middle of a pipeline begins on an empty cluster",
        path=_SINK,
        before="if before is None and batch.continues:",
        after="if False:",
        suite=_EMPTY,
    ),
    Mutation(
        name="a replay goes to the index of a later load",
        path=_SINK,
        before="if not batch.is_replay or not self._is_of_load(target, version):",
        after="if not batch.is_replay:",
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
        name="a late load takes the name from a later one",
        path=_SINK,
        before="        self._refuse_superseded(batch, begun)\n        if not batch",
        after="        if not batch",
        further=(
            Edit(
                path="sinks/opensearch/indexes.py",
                before="if any((self.names.version_of(name) or 0) > version for name in shown):",
                after="if False:",
            ),
        ),
        suite=_SUITE,
    ),
    Mutation(
        name="an index that a later load removed is an error and not a late batch",
        path=_SINK,
        before="        except IndexGoneError:\n            self._refuse_superseded(batch, begun)\n            raise",
        after="        except IndexGoneError:\n            raise",
        suite=_SUITE,
    ),
    Mutation(
        name="a reload goes into an index that a user made",
        path=_SINK,
        before="if batch.begins_anew and before is not None and before.version != version:",
        after="if False:",
        suite=_SUITE,
    ),
    Mutation(
        name="an index with documents of others is claimed",
        path="sinks/opensearch/indexes.py",
        before="if _meta(index) is None and (name != self.names.index or self._count(name)):",
        after="if False:",
        suite=_SUITE,
    ),
    Mutation(
        name="an index that was removed in the middle of a pipeline is made again",
        path="sinks/opensearch/indexes.py",
        before="            if not is_new:\n                raise IndexGoneError.of(self._cluster.url, target)\n",
        after="",
        suite=_SUITE,
    ),
    Mutation(
        name="documents with ids of another form go into the same index",
        path="sinks/opensearch/indexes.py",
        before='if meta is not None and meta["identity"] != identity:',
        after="if False:",
        suite=_SUITE,
    ),
    Mutation(
        name="an index may forget deletions within a minute",
        path="sinks/opensearch/indexes.py",
        before="if parse_seconds(kept) < _LEAST_GC_SECONDS:",
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
        name="a late write makes an index",
        path="sinks/opensearch/bulk.py",
        before='"require_alias": "true",',
        after='"require_alias": "false",',
        further=(
            Edit(
                path="sinks/opensearch/index_names.py",
                before='return f"{target}-WRITER"',
                after='return f"{target}-writer"',
            ),
        ),
        suite=_SUITE,
    ),
    Mutation(
        name="an answer to fewer operations than were sent is taken for whole",
        path="sinks/opensearch/bulk.py",
        before="        if len(items) != len(chunk):",
        after="        if False:",
        suite=_SUITE,
    ),
    Mutation(
        name="an index that takes no writes is asked until the patience ends",
        path="sinks/opensearch/bulk.py",
        before="        if blocked is not None:\n            raise blocked\n",
        after="",
        suite=_SUITE,
    ),
    Mutation(
        name="an operation that is refused for now counts as refused for good",
        path="sinks/opensearch/bulk.py",
        before="if status == 429 or status >= 500:",
        after="if False:",
        suite=_SUITE,
    ),
    Mutation(
        name="a request without rights is a poison document",
        path="sinks/opensearch/bulk.py",
        before="        if status in (401, 403):",
        after="        if False:",
        suite=_SUITE,
    ),
    Mutation(
        name="any number of dead letters is kept",
        path="sinks/dead_letters.py",
        before="        if count <= self._limit:",
        after="        if True:",
        suite=_SUITE,
    ),
    Mutation(
        name="the parts of a batch have as many dead letters each as the batch may have",
        path=_SINK,
        before="        if self._letters is not None and count:",
        after="        if False:",
        suite=_SUITE,
    ),
    Mutation(
        name="dead letters of an earlier try stay when the documents are taken",
        path="sinks/dead_letters.py",
        before="                self._store.delete([key])\n",
        after="                pass\n",
        suite=_SUITE,
    ),
    Mutation(
        name="an id of more than 512 bytes stays as it is",
        path="sinks/opensearch/document_ids.py",
        before="    if not pc.any(is_long).as_py():",
        after="    if True:",
        suite=_SUITE,
    ),
    Mutation(
        name="values of a key are joined without their lengths",
        path="sinks/opensearch/document_ids.py",
        before="pieces.append(pc.binary_join_element_wise(length, text, ",
        after="pieces.append(pc.binary_join_element_wise(text, text, ",
        suite=_SUITE,
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
        name="two rows of one key in a part are no error",
        path="sinks/key_changes.py",
        before='if duplicates == "fail" and len(decided.duplicated):',
        after="if False:",
        suite=_KEYS,
    ),
    Mutation(
        name="a key with a null in it gets a document",
        path="sinks/key_changes.py",
        before="        if column.null_count:",
        after="        if False:",
        suite=_SUITE,
    ),
    Mutation(
        name="the mark of a row with a dead letter is purged",
        path="sinks/opensearch/deletions.py",
        before='if each["_id"] not in self.kept',
        after="if True",
        suite=("tests/sinks/opensearch/test_purge.py",),
    ),
    Mutation(
        name="an index that forgets deletions at once is purged as it is",
        path="sinks/opensearch/opensearch_sink.py",
        before="        self._indexes.remember_deletions(begun.target)\n",
        after="",
        suite=("tests/sinks/opensearch/test_purge.py",),
    ),
)
