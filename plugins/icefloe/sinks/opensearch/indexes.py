"""The indexes behind one name: one for each load, shown when the load is whole, removed by the next."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.sinks.opensearch.cluster import Cluster, ClusterRefusedError, IndexGoneError
from icefloe.sinks.opensearch.cluster_answer import ALREADY_THERE, failed_copies, missing_shards
from icefloe.sinks.opensearch.document_ids import id_forms
from icefloe.sinks.opensearch.index_names import IndexNames, generation_of
from icefloe.sinks.opensearch.known_columns import column_with_default, known_columns, other_column
from icefloe.sinks.opensearch.mapping import field_mappings
from icefloe.sinks.opensearch.opensearch_options import OpenSearchSettings
from icefloe.sinks.opensearch.row_documents import DELETED
from icefloe.units import parse_seconds

_LOG: Final = logging.getLogger(__name__)
_META: Final = "icefloe"
_COLUMNS: Final = "columns"
_GC_DELETES: Final = "24h"
_LEAST_GC_SECONDS: Final = 3_600.0
_NOT_DELETED: Final = {"bool": {"must_not": [{"term": {DELETED: True}}]}}


class IndexMisfitError(TerminalError):
    """An index does not fit what is to be written to it."""

    url: str


class Indexes:
    """The indexes of one sink.

    Args:
        cluster: to ask.
        settings: of the sink.
    """

    def __init__(self, cluster: Cluster, settings: OpenSearchSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self.names = IndexNames(index=settings.index)
        self._url = f"{cluster.url}/{settings.index}"

    def own_index(self) -> Mapping[str, Any] | None:
        """The index that a user made under the very name; None if the name is an alias or free."""
        return self._find(self.names.index).get(self.names.index)

    def is_known(self, index: Mapping[str, Any]) -> bool:
        """True if a batch of this sink was written to an index, or was about to be."""
        return self._meta(index) is not None

    def uuid(self, name: str) -> str | None:
        """The uuid of an index; None if it is missing, or the cluster does not say it."""
        found = self._find(name).get(name)
        return None if found is None else _uuid(found)

    def is_in_use(self) -> bool:
        """True if readers find an index that a batch of this sink was written to."""
        return any(self.is_known(index) for index in self._find(self.names.index).values())

    def next_generation(self) -> int:
        """The generation whose loads count as later than all that are there; 0 if there are none."""
        there = [self._version(name, index) for name, index in self._find(self.names.pattern).items()]
        return max((generation_of(version) + 1 for version in there if version is not None), default=0)

    def refuse_foreign(self) -> None:
        """Raise if the name belongs to what nobody claimed: an alias of other indexes, or an index with documents.

        Raises:
            IndexMisfitError: it does.
        """
        for name, index in self._find(self.names.index).items():
            self._refuse_other(name, index, may_be_empty=name == self.names.index)

    def prepare(
        self,
        target: str,
        *,
        is_new: bool,
        uuid: str | None = None,
        batch: ProvenBatch,
    ) -> str | None:
        """Let an index know the columns of a batch.

        Args:
            target: name of the index.
            is_new: True: it is made if it is missing.
            uuid: that this call has returned to an earlier try; None: the index may be any of that name.
            batch: the batch.

        Returns:
            The uuid of the index, which another one of its name does not have; None if the cluster does not say it.

        Raises:
            IndexGoneError: it is missing, or has another uuid.
            IndexMisfitError: an existing index has other fields or other keys, documents without values that the table
                has, or forgets deletions too soon.
        """
        forms = id_forms(batch.schema, batch.identity)
        found = self._find(target).get(target)
        meta = {_META: {"version": 1, "index": self.names.index, "identity": forms, **self._columns(found, batch)}}
        mapping = {"_meta": meta, "properties": field_mappings(batch.schema, batch.shown, batch.identity)}
        if uuid is not None and (found is None or _uuid(found) != uuid):
            raise IndexGoneError.of(self._cluster.url, target)
        if found is None:
            if not is_new:
                raise IndexGoneError.of(self._cluster.url, target)
            is_made = self._make(target, mapping)
            found = self._there(target)
            if is_made:
                return _uuid(found)
        self._refuse_misfit(target, found, forms)
        self._refuse_other_columns(target, found, batch)
        if target == self.names.index:
            # What the user has chosen for a field stays.
            known = found["mappings"].get("properties", {})
            added = {name: field for name, field in mapping["properties"].items() if name not in known}
            mapping = {"_meta": {**found["mappings"].get("_meta", {}), **meta}, "properties": added}
        self._add_fields(target, mapping)
        if self.names.writer(target) not in found["aliases"]:
            add = {"add": {"index": target, "alias": self.names.writer(target)}}
            self._cluster.ask("POST", "/_aliases", {"actions": [add]})
        return _uuid(found)

    def _make(self, target: str, mapping: Mapping[str, Any]) -> bool:
        """Make an index; False if another try has just made it."""
        body = {"settings": {"index": self._new_settings()}, "aliases": {self.names.writer(target): {}}}
        # A template of the cluster may say otherwise, but documents have a source and no routing.
        body["mappings"] = {
            "dynamic": "strict",
            "_source": {"enabled": True},
            "_routing": {"required": False},
            **mapping,
        }
        made = self._cluster.ask("PUT", f"/{target}", body, allowed=(400,))
        if made.status != 400:
            return True
        if made.error_type == ALREADY_THERE:
            return False
        raise IndexMisfitError(
            f"{self._url}: the cluster cannot make index {target} for the table's columns ({made.fault}); change what "
            "it names, such as a template of the cluster, or leave columns out by `columns`",
            url=self._url,
        )

    def show(self, target: str) -> None:
        """Make the documents of an index visible, and the index the only one behind the name; remove older ones.

        Searches see either the old index or the new one, since one call moves the name.

        Raises:
            IndexGoneError: the index is missing, or will be: the name belongs to the index of a later load.
        """
        self._cluster.ask("POST", f"/{target}/_refresh", unless=failed_copies)
        if target == self.names.index:
            return
        version = self.names.version_of(target) or 0
        while {*(shown := self._find(self.names.index))} != {target}:
            if any((self._version(name, index) or 0) > version for name, index in shown.items()):
                raise IndexGoneError.of(self._cluster.url, target)
            others = [name for name in shown if name != target]
            if any(self._meta(index) is None for name, index in shown.items() if name != target):
                _LOG.warning("%s: moving the name back from %s to %s, which has all changes", self._url, others, target)
            self._move_name(others, target)
        self._remove_older(version)

    def _move_name(self, sources: Sequence[str], target: str) -> None:
        alias = self.names.index
        filtered = {"filter": _NOT_DELETED} if self._settings.deletes == "soft" else {}
        actions: list[dict[str, Any]] = [{"add": {"index": target, "alias": alias, **filtered}}]
        actions += [{"remove": {"index": name, "alias": alias, "must_exist": True}} for name in sources]
        # 404: the name was moved meanwhile, by another process or by this very call, whose answer was lost.
        self._cluster.ask("POST", "/_aliases", {"actions": actions}, allowed=(404,))

    def refuse_missing(self, target: str) -> None:
        """Raise if an index is not there.

        Raises:
            IndexGoneError: it is missing.
        """
        self._there(target)

    def remember_deletions(self, target: str) -> None:
        """Let an index remember the deletion of marks, so that no late write brings their rows back.

        Raises:
            IndexMisfitError: it is the user's, and remembers deletions for less than an hour.
            IndexGoneError: it is missing.
        """
        kept = _gc_deletes(self._there(target))
        if parse_seconds(kept) >= _LEAST_GC_SECONDS:
            return
        if target == self.names.index:
            raise IndexMisfitError(
                f"{self._url}: index.gc_deletes of index {target} is {kept}, so a repeated write would bring back a "
                "row whose mark was purged longer ago; set it to 1h or more, then purge again",
                url=self._url,
            )
        self._cluster.ask("PUT", f"/{target}/_settings", {"index": {"gc_deletes": _GC_DELETES}})

    def _there(self, target: str) -> Mapping[str, Any]:
        found = self._find(target).get(target)
        if found is None:
            raise IndexGoneError.of(self._cluster.url, target)
        return found

    def _remove_older(self, version: int) -> None:
        for name, index in self._find(self.names.pattern).items():
            found = self._version(name, index)
            if found is not None and found < version:
                _LOG.info("%s: removing index %s, which a later load replaces", self._url, name)
                self._cluster.ask("DELETE", f"/{name}", allowed=(404,))

    def _new_settings(self) -> dict[str, Any]:
        chosen = {"number_of_shards": self._settings.shards, "number_of_replicas": self._settings.replicas}
        return {
            **{key: value for key, value in chosen.items() if value is not None},
            # Nested objects of a wide table need more fields than the default of 1,000.
            "mapping.total_fields.limit": 10_000,
            **({"gc_deletes": _GC_DELETES} if self._settings.deletes == "hard" else {}),
        }

    def _refuse_other(self, name: str, index: Mapping[str, Any], *, may_be_empty: bool) -> None:
        """Raise if an index is another sink's, or has documents of nobody known."""
        if self._meta(index) is not None:
            return
        other = _meta_of_any(index).get("index")
        if other is not None:
            raise IndexMisfitError(
                f"{self._url}: index {name} is of another sink, whose sink.index is {other}; choose another sink.index "
                "for one of the two, which does not end in a number",
                url=self._url,
            )
        if not may_be_empty or self._count(name):
            raise IndexMisfitError(
                f"{self._url} holds documents that icefloe did not write (index {name}); choose another "
                "sink.index, or remove that index or alias",
                url=self._url,
            )

    def _refuse_misfit(self, target: str, found: Mapping[str, Any], identity: Mapping[str, str]) -> None:
        self._refuse_other(target, found, may_be_empty=True)
        meta = self._meta(found)
        if meta is not None and meta["identity"] != identity:
            raise IndexMisfitError(
                f"{self._url}: the documents of index {target} have ids of {_shown(meta['identity'])}, and this batch "
                f"has {_shown(identity)}; run `icefloe reset` for the pipeline, which loads into a new index",
                url=self._url,
            )
        if self._settings.deletes == "hard":
            kept = _gc_deletes(found)
            if parse_seconds(kept) < _LEAST_GC_SECONDS:
                raise IndexMisfitError(
                    f"{self._url}: index.gc_deletes of index {target} is {kept}, so a repeated write would bring back "
                    "a row that was deleted longer ago; set it to 1h or more, or write `deletes: soft`",
                    url=self._url,
                )

    def _refuse_other_columns(self, target: str, found: Mapping[str, Any], batch: ProvenBatch) -> None:
        """Raise if documents of before lack values that the table has: an index knows its fields by name only."""
        known = (self._meta(found) or {}).get(_COLUMNS)
        if known is None:
            # Of a release before this one: what is there counts as right.
            return
        other, added = other_column(known, batch), column_with_default(known, batch)
        if (other is None and added is None) or not self._count(target):
            return
        if other is not None:
            raise IndexMisfitError(
                f"{self._url}: the documents of index {target} have the values of another column under the name "
                f"{other}, which was dropped or renamed since; run `icefloe reset` for the pipeline, which loads into "
                "a new index",
                url=self._url,
            )
        raise IndexMisfitError(
            f"{self._url}: the documents of index {target} lack column {added}, which is new and has an initial "
            "default in their rows; run `icefloe reset` for the pipeline, which loads into a new index",
            url=self._url,
        )

    def _columns(self, found: Mapping[str, Any] | None, batch: ProvenBatch) -> dict[str, Any]:
        """The facts about columns that are kept at an index, with those of earlier batches."""
        known = {} if found is None else (self._meta(found) or {}).get(_COLUMNS, {})
        columns = {**known, **known_columns(batch)}
        return {_COLUMNS: columns} if columns else {}

    def _add_fields(self, target: str, mapping: Mapping[str, Any]) -> None:
        try:
            self._cluster.ask("PUT", f"/{target}/_mapping", mapping)
        except ClusterRefusedError as error:
            if error.status != 400:
                raise
            raise IndexMisfitError(
                f"the fields of index {target} do not fit the table's columns any more: {error}; run `icefloe reset` "
                "for the pipeline, which loads into a new index",
                url=self._url,
            ) from None

    def _find(self, name: str) -> Mapping[str, Any]:
        """Indexes by name, with aliases, mappings and settings; of an alias, those behind it; none if it is free."""
        found = self._cluster.ask("GET", f"/{name}", allowed=(404,))
        return {} if found.status == 404 else found.body

    def _version(self, name: str, index: Mapping[str, Any]) -> int | None:
        """The version in the name of an index of a load; None if it is none, or another sink's."""
        return None if self._meta(index) is None else self.names.version_of(name)

    def _meta(self, index: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The facts that a batch has left at an index; None if none has, or those are of another sink."""
        found = _meta_of_any(index)
        return found if found.get("index") == self.names.index else None

    def _count(self, name: str) -> int:
        self._cluster.ask("POST", f"/{name}/_refresh", unless=failed_copies)
        return int(self._cluster.ask("GET", f"/{name}/_count", unless=missing_shards).body["count"])


def _meta_of_any(index: Mapping[str, Any]) -> Mapping[str, Any]:
    found = index.get("mappings", {}).get("_meta", {}).get(_META)
    return found if isinstance(found, Mapping) else {}


def _uuid(index: Mapping[str, Any]) -> str | None:
    """The uuid of an index with that of its history, if a restore from a snapshot has given it one.

    A restore over a closed index keeps the first one.
    """
    settings = index["settings"]["index"]
    found, history = settings.get("uuid"), settings.get("history", {}).get("uuid")
    return "/".join(each for each in (found, history) if each) if isinstance(found, str) else None


def _gc_deletes(index: Mapping[str, Any]) -> str:
    return str(index["settings"]["index"].get("gc_deletes", "60s"))


def _shown(identity: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({form})" for name, form in identity.items())
