"""Mutations of the documents that the opensearch sink writes: versions, ids, bulk requests and dead letters."""

from typing import Final

from mutations.mutation import Edit, Mutation

__all__ = ["SEARCH_DOCUMENTS"]

_SINK: Final = "sinks/opensearch/opensearch_sink.py"
_SUITE: Final = tuple(
    f"tests/sinks/opensearch/test_{name}.py" for name in ("bulk", "indexes", "purge", "row_documents")
)
_LATE: Final = ("tests/sinks/opensearch/test_late_batches.py",)
_FOREIGN: Final = ("tests/sinks/opensearch/test_foreign_writes.py",)
_LETTERS: Final = ("tests/sinks/opensearch/test_letter_replay.py",)
_KEYS: Final = ("tests/sinks/test_key_changes.py",)

SEARCH_DOCUMENTS: Final = (
    Mutation(
        name="a document of our own version with another content counts as repeated",
        path="sinks/opensearch/conflicts.py",
        before='is_ours = content is not None and _is_content(content, found["_source"])',
        after="is_ours = content is not None",
        suite=_SUITE,
    ),
    Mutation(
        name="a conflict that is gone when it is looked at is not sent again",
        path="sinks/opensearch/conflicts.py",
        before="        return Verdict.AGAIN",
        after="        return Verdict.REPEATED",
        suite=_LATE,
    ),
    Mutation(
        name="a live batch goes on over documents of a later batch",
        path="sinks/opensearch/conflicts.py",
        before="        raise superseded(self.url, self.batch)\n",
        after='        return "superseded"\n',
        suite=_LATE,
    ),
    Mutation(
        name="a purged mark of an earlier try was removed by another program",
        path="sinks/opensearch/conflicts.py",
        before="if stored is None and begun == version and content",
        after="if False and content",
        suite=("tests/sinks/opensearch/test_purge.py",),
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
        before="if begun is not None and (begun <= version if stored is None else begun < stored):",
        after="if False:",
        suite=_FOREIGN,
    ),
    Mutation(
        name="a dead letter is dropped if another program raised the version of its document",
        path="sinks/opensearch/letter_replay.py",
        before="            elif verdict in (Verdict.OTHER_CONTENT, Verdict.FOREIGN):\n",
        after="            elif False:\n",
        suite=_LETTERS,
    ),
    Mutation(
        name="a dead letter whose conflict is gone when it is looked at is dropped",
        path="sinks/opensearch/letter_replay.py",
        before="                again.append(letter)\n",
        after="                pass\n",
        suite=_LETTERS,
    ),
    Mutation(
        name="a dead letter is sent though its deletion may be forgotten",
        path="sinks/opensearch/letter_replay.py",
        before="        if not self.forgets:\n",
        after="        if True:\n",
        suite=_LETTERS,
    ),
    Mutation(
        name="with hard deletes a letter stays whose document is there",
        path="sinks/opensearch/letter_replay.py",
        before=' if not stored["found"]]',
        after="]",
        suite=_LETTERS,
    ),
    Mutation(
        name="with hard deletes a letter of the last batch stays",
        path="sinks/opensearch/letter_replay.py",
        before="for letter in missing if latest != letter.version)",
        after="for letter in missing)",
        suite=_LETTERS,
    ),
    Mutation(
        name="a late delivery brings rows back whose hard deletion is forgotten",
        path="sinks/opensearch/document_delivery.py",
        before='self.refuse_superseded if self.settings.deletes == "hard" else None',
        after="None",
        suite=_LATE,
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
        path="sinks/opensearch/cluster.py",
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
        name="a request that is too large is refused as a whole",
        path="sinks/opensearch/bulk.py",
        before="        if answer.status == 413:\n",
        after="        if False:\n",
        suite=("tests/sinks/opensearch/test_bulk.py",),
    ),
    Mutation(
        name="a document that no request can hold is sent again and again",
        path="sinks/opensearch/bulk.py",
        before="            if len(chunk) == 1:\n",
        after="            if False:\n",
        suite=("tests/sinks/opensearch/test_bulk.py",),
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
        name="a cleanup of staged batches deletes dead letters",
        path="pipeline/nested_places.py",
        before="_dead_letters_url(pipeline)),",
        after='""),',
        suite=("tests/pipeline/test_nested_places.py",),
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
        name="a topic is sent the removal of another row than the one that its key got last",
        path="sinks/key_changes.py",
        before="fits = (is_added[1:] != is_added[:-1]) & (is_added[1:] | is_same)",
        after="fits = is_added[1:] != is_added[:-1]",
        suite=("tests/sinks/test_key_changes.py",),
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
)
