"""Checks of an index before a batch is written to it: its owner, its ids, its columns and its deletions."""

from collections.abc import Mapping
from dataclasses import dataclass

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.sinks.opensearch.cluster import Cluster
from icefloe.sinks.opensearch.cluster_answer import failed_copies, missing_shards
from icefloe.sinks.opensearch.found_index import FoundIndex
from icefloe.sinks.opensearch.known_columns import column_with_default, other_column
from icefloe.sinks.opensearch.opensearch_options import OpenSearchSettings


class IndexMisfitError(TerminalError):
    """An index does not fit what is to be written to it."""

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexChecks:
    """Refuses indexes that do not fit.

    Attributes:
        cluster: to count documents.
        settings: of the sink.
    """

    cluster: Cluster
    settings: OpenSearchSettings

    def refuse_other(self, index: FoundIndex, *, may_be_empty: bool) -> None:
        """Raise if an index is another sink's, or has documents of nobody known.

        Args:
            index: the index.
            may_be_empty: True: an index that nobody claimed is taken as long as it has no documents.

        Raises:
            IndexMisfitError: it is, or has.
        """
        if index.is_known:
            return
        other = index.written_as
        if other is not None:
            raise IndexMisfitError(
                f"{self._url}: index {index.name} is of another sink, whose sink.index is {other}; choose another "
                "sink.index for one of the two, which does not end in a number",
                url=self._url,
            )
        if not may_be_empty or self._count(index.name):
            raise IndexMisfitError(
                f"{self._url} holds documents that icefloe did not write (index {index.name}); choose another "
                "sink.index, or remove that index or alias",
                url=self._url,
            )

    def refuse_misfit(self, index: FoundIndex, identity: Mapping[str, str]) -> None:
        """Raise if an index is not this sink's, has ids of another form, or forgets deletions too soon.

        Args:
            index: the index.
            identity: forms of the document ids of the next batch.

        Raises:
            IndexMisfitError: one of these.
        """
        self.refuse_other(index, may_be_empty=True)
        facts = index.facts
        if facts is not None and facts["identity"] != identity:
            raise IndexMisfitError(
                f"{self._url}: the documents of index {index.name} have ids of {_shown(facts['identity'])}, and this "
                f"batch has {_shown(identity)}; run `icefloe reset` for the pipeline, which loads into a new index",
                url=self._url,
            )
        if self.settings.deletes == "hard" and index.forgets_soon:
            raise IndexMisfitError(
                f"{self._url}: index.gc_deletes of index {index.name} is {index.gc_deletes}, so a repeated write would "
                "bring back a row that was deleted longer ago; set it to 1h or more, or write `deletes: soft`",
                url=self._url,
            )

    def refuse_other_columns(self, index: FoundIndex, batch: ProvenBatch) -> None:
        """Raise if documents of before lack values that the table has: an index knows its fields by name only.

        Raises:
            IndexMisfitError: they do.
        """
        known = index.columns
        if known is None:
            # Of another program: what is there counts as right.
            return
        other, added = other_column(known, batch), column_with_default(known, batch)
        if (other is None and added is None) or not self._count(index.name):
            return
        if other is not None:
            raise IndexMisfitError(
                f"{self._url}: the documents of index {index.name} have the values of another column under the name "
                f"{other}, which was dropped or renamed since; run `icefloe reset` for the pipeline, which loads into "
                "a new index",
                url=self._url,
            )
        raise IndexMisfitError(
            f"{self._url}: the documents of index {index.name} lack column {added}, which is new and has an initial "
            "default in their rows; run `icefloe reset` for the pipeline, which loads into a new index",
            url=self._url,
        )

    @property
    def _url(self) -> str:
        return f"{self.cluster.url}/{self.settings.index}"

    def _count(self, name: str) -> int:
        self.cluster.ask("POST", f"/{name}/_refresh", unless=failed_copies)
        found = self.cluster.ask("GET", f"/{name}/_count", has=("count",), unless=missing_shards)
        return int(found.body["count"])


def _shown(identity: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({form})" for name, form in identity.items())
