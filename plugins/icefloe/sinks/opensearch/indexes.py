"""The indexes behind one name, one for each load, and the facts that batches leave there."""

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch, column_paths, column_type
from icefloe.sinks.json_texts import is_text_type
from icefloe.sinks.opensearch.cluster import Cluster, IndexGoneError, failed_copies
from icefloe.sinks.opensearch.opensearch_options import OpenSearchSettings
from icefloe.sinks.opensearch.row_documents import DELETED, DELETED_AT, NOT_DELETED, id_forms


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexNames:
    """Names that belong to ``sink.index``."""

    index: str

    @property
    def state(self) -> str:
        """The hidden index of the claim."""
        return f"{self.index}-icefloe"

    @property
    def pattern(self) -> str:
        """Matches indexes of all loads, possibly of others too."""
        return f"{self.index}-*"

    def of_load(self, version: int) -> str:
        """The index of a load, by the version of its first batch."""
        return f"{self.index}-{version}"

    def writer(self, target: str) -> str:
        """The alias by which an index is written, which goes when the index goes."""
        # A cluster makes an index of an unknown name, but not with capitals: a late write to a removed one makes none.
        return f"{target}-WRITER"

    def version_of(self, name: str) -> int | None:
        """The version in the name of a load's index; None: another form."""
        found = re.fullmatch(rf"{re.escape(self.index)}-(\d+)", name)
        return int(found[1]) if found else None


def known_columns(batch: ProvenBatch) -> dict[str, int]:
    """Field ids of the shown columns, by dotted name."""
    is_shown = _shown_by(batch)
    return {name: field_id for name, field_id in batch.field_ids.items() if is_shown(name)}


def column_with_default(known: Mapping[str, int], batch: ProvenBatch) -> str | None:
    """A new column with a value for earlier rows, which documents lack."""
    for name in filter(_shown_by(batch), sorted(batch.defaulted - known.keys())):
        # A field of a new struct has no value in the rows before it, unless the struct has one.
        parent = name.rpartition(".")[0]
        if parent in known or parent not in batch.field_ids:
            return name
    return None


def _shown_by(batch: ProvenBatch) -> Callable[[str], bool]:
    schema = batch.shown_schema
    kinds = {name: column_type(schema, name) for name in map(".".join, column_paths(schema))}
    nested = (name for name, kind in kinds.items() if pa.types.is_nested(kind) and not pa.types.is_struct(kind))
    inside = tuple(f"{name}." for name in nested)
    return lambda name: name in kinds or name.startswith(inside)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundIndex:
    """An index as the cluster describes it."""

    name: str
    described: Mapping[str, Any]
    names: IndexNames

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts that a batch left, of any sink; empty if there are none."""
        return self.mappings.get("_meta", {}).get("icefloe", {})

    @property
    def is_known(self) -> bool:
        """True if a batch of this sink made it."""
        return self.facts.get("index") == self.names.index

    @property
    def version(self) -> int | None:
        """The version in the name of this sink's index of a load, or None."""
        return self.names.version_of(self.name) if self.is_known else None

    @property
    def mappings(self) -> Mapping[str, Any]:
        """Its fields and facts, of any sink."""
        return self.described.get("mappings", {})

    @property
    def uuid(self) -> str | None:
        """Its uuid with that of its history, if restored from a snapshot, and if known."""
        # A restore over a closed index keeps the first one.
        settings = self.described["settings"]["index"]
        found, history = settings.get("uuid"), settings.get("history", {}).get("uuid")
        return "/".join(each for each in (found, history) if each) if isinstance(found, str) else None


_LONGEST_KEYWORD: Final = 8_191
"""Characters: a term of more than 32,766 bytes makes Lucene refuse the document, and a character has up to 4."""
_KEYWORD: Final = {"type": "keyword", "ignore_above": _LONGEST_KEYWORD}
_RESERVED: Final = frozenset(
    {DELETED, DELETED_AT, "_id", "_index", "_source", "_routing", "_version", "_seq_no", "_primary_term", "_size",
     "_field_names", "_ignored", "_nested_path", "_type", "_doc_count", "_data_stream_timestamp", "_tier"}
)  # fmt: skip
_LOG: Final = logging.getLogger(__name__)


def _shown(identity: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({form})" for name, form in identity.items())


def field_mappings(shown: pa.Schema, identity: Sequence[str]) -> dict[str, Any]:
    """The ``properties`` of an index that shows these columns; types that Iceberg may promote are mapped promoted."""
    # Values that cannot be indexed, such as NaN, stay in the document and out of searches.
    for column in shown:
        if column.name in _RESERVED or any(map(_is_unusable, _names(column))):
            raise TerminalError(
                f"column {column.name} has a name that the opensearch sink cannot use for a field; rename the column, "
                "or leave it out by `columns`",
                column=column.name,
            )
    return {
        **_properties({column.name: column.type for column in shown}, keys=identity),
        DELETED: {"type": "boolean"},
        DELETED_AT: {"type": "date", "format": "strict_date_optional_time_nanos"},
    }


def missing_fields(wanted: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """The ``properties`` that an index lacks, also inside of objects; a dot in a name makes one."""
    found = {}
    for name, field in wanted.items():
        there: Any = {"properties": known}
        for part in name.split("."):
            there = there.get("properties", {}).get(part) if there else None
        if there is None or ("properties" in field and "properties" not in there):
            found[name] = field
        elif inner := missing_fields(field.get("properties", {}), there.get("properties", {})):
            found[name] = {"properties": inner}
    return found


def _names(field: pa.Field) -> Iterator[str]:
    yield field.name
    for number in range(field.type.num_fields):
        yield from _names(field.type.field(number))


def _is_unusable(name: str) -> bool:
    """True if a part between dots is empty. Dots at the end are left out."""
    return not all(name.rstrip(".").split("."))


def _properties(kinds: Mapping[str, pa.DataType], *, keys: Sequence[str] = ()) -> dict[str, Any]:
    """The fields of an object; a column of unknown type has none."""
    return {
        name: _mapping(kind, is_key=name in keys) for name, kind in kinds.items() if not pa.types.is_null(_inner(kind))
    }


def _inner(kind: pa.DataType) -> pa.DataType:
    """The type of elements, as a list has the field of its elements."""
    return _inner(kind.value_type) if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind


def _mapping(written: pa.DataType, *, is_key: bool) -> dict[str, Any]:
    kind = _inner(written)
    if pa.types.is_struct(kind):
        return {"properties": _properties({field.name: field.type for field in kind})}
    if pa.types.is_map(kind):
        return {"properties": _properties({"key": kind.key_type, "value": kind.item_type})}
    if pa.types.is_boolean(kind):
        return {"type": "boolean"}
    if pa.types.is_integer(kind):
        return {"type": "long"}
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return {"type": "double", "ignore_malformed": True}
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return {"type": "date", "format": "strict_date_optional_time_nanos", "ignore_malformed": True}
    is_text = is_text_type(kind)
    if pa.types.is_time(kind) or isinstance(kind, pa.UuidType) or (is_text and is_key):
        return dict(_KEYWORD)
    return {"type": "text", "fields": {"keyword": dict(_KEYWORD)}} if is_text else {"type": "binary"}


class Indexes:
    """The indexes of one sink."""

    def __init__(self, cluster: Cluster, settings: OpenSearchSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self.names = IndexNames(index=settings.index)
        self._url = f"{cluster.url}/{settings.index}"

    def uuid(self, name: str) -> str | None:
        """The uuid of an index; None if it is missing or not known."""
        found = self._find(name).get(name)
        return None if found is None else found.uuid

    def is_in_use(self) -> bool:
        """True if readers find an index of this sink."""
        return any(each.is_known for each in self._find(self.names.index).values())

    def next_generation(self) -> int:
        """A generation later than all that are there."""
        there = [each.version for each in self._find(self.names.pattern).values()]
        return max(((version >> 32) + 1 for version in there if version is not None), default=0)

    def refuse_foreign(self, name: str) -> None:
        """Raise if a name is an index, or the alias of one, that no batch of this sink made."""
        for each in self._find(name).values():
            self._require_own(each)

    def _refuse_own_name(self, shown: Collection[str]) -> None:
        """Raise if the name of the alias is an index: a cluster has one or the other."""
        if self.names.index in shown:
            raise TerminalError(
                f"{self._url} is an index that icefloe did not make; remove it, and the next try makes the alias"
            )

    def _require_own(self, index: FoundIndex) -> None:
        if not index.is_known:
            raise TerminalError(
                f"{self._url}: icefloe did not make index {index.name}, or for another sink.index; choose a sink.index "
                "that does not end in a number, or remove that index or alias"
            )

    def prepare(self, target: str, *, is_new: bool, uuid: str | None = None, batch: ProvenBatch) -> str | None:
        """Let an index know a batch's columns; returns its uuid, if known. IndexGoneError: missing, or another uuid."""
        forms = id_forms(batch.schema, batch.identity)
        fields = field_mappings(batch.shown_schema, batch.identity)
        found = self._find(target).get(target)
        columns = {**(found.facts.get("columns", {}) if found else {}), **known_columns(batch)}
        meta = {"icefloe": {"version": 1, "index": self.names.index, "identity": forms, "columns": columns}}
        if (found is None and not is_new) or (uuid is not None and (found is None or found.uuid != uuid)):
            raise IndexGoneError.of(self._cluster.url, target)
        if found is None:
            self._refuse_own_name(self._find(self.names.index))
            self._make(target, {"_meta": meta, "properties": {name: fields[name] for name in (DELETED, DELETED_AT)}})
            found = self._find(target).get(target)
            if found is None:
                raise IndexGoneError.of(self._cluster.url, target)
        self._require_own(found)
        self._refuse_misfit(found, forms, batch)
        # Fields that the user has chosen, in an index or in a template, stay.
        added = missing_fields(fields, found.mappings.get("properties", {}))
        self._add_fields(target, {"_meta": {**found.mappings.get("_meta", {}), **meta}, "properties": added})
        if self.names.writer(target) not in found.described["aliases"]:
            add = {"add": {"index": target, "alias": self.names.writer(target)}}
            self._cluster.ask("POST", "/_aliases", {"actions": [add]})
        return found.uuid

    def _make(self, target: str, mapping: Mapping[str, Any]) -> None:
        chosen = {"number_of_shards": self._settings.shards, "number_of_replicas": self._settings.replicas}
        settings = {
            **{key: value for key, value in chosen.items() if value is not None},
            # Nested objects of a wide table need more fields than the default of 1,000.
            "mapping.total_fields.limit": 10_000,
            # It remembers the deletion of a document or mark, so that no late write brings the row back.
            "gc_deletes": "24h",
        }
        # A template of the cluster may say otherwise, but documents have a source and no routing.
        own = {"dynamic": "strict", "_source": {"enabled": True}, "_routing": {"required": False}}
        body = {
            "settings": {"index": settings}, "aliases": {self.names.writer(target): {}}, "mappings": {**own, **mapping}
        }  # fmt: skip
        self._cluster.make_index(target, body)

    def show(self, target: str) -> None:
        """Make an index visible and the only one behind the name, by one call; remove older ones."""
        # IndexGoneError: the index is missing, or the name belongs to a later load.
        self._cluster.ask("POST", f"/{target}/_refresh", unless=failed_copies)
        version, alias = self.names.version_of(target) or 0, self.names.index
        filtered = {"filter": NOT_DELETED} if self._settings.deletes == "soft" else {}
        while {*(shown := self._find(alias))} != {target}:
            self._refuse_own_name(shown)
            if any((each.version or 0) > version for each in shown.values()):
                raise IndexGoneError.of(self._cluster.url, target)
            others = [name for name in shown if name != target]
            _LOG.info("%s: moving the name from %s to %s", self._url, others, target)
            actions: list[dict[str, Any]] = [{"add": {"index": target, "alias": alias, **filtered}}]
            actions += [{"remove": {"index": name, "alias": alias, "must_exist": True}} for name in others]
            # 404: the name was moved meanwhile, by another process or by this very call, whose answer was lost.
            self._cluster.ask("POST", "/_aliases", {"actions": actions}, allowed=(404,))
        for each in self._find(self.names.pattern).values():
            if each.version is not None and each.version < version:
                _LOG.info("%s: removing index %s, which a later load replaces", self._url, each.name)
                self._cluster.ask("DELETE", f"/{each.name}", allowed=(404,))

    def _add_fields(self, target: str, mapping: Mapping[str, Any]) -> None:
        answer = self._cluster.ask("PUT", f"/{target}/_mapping", mapping, allowed=(400,))
        if answer.status == 400:
            raise TerminalError(
                f"{self._url}: the fields of index {target} do not fit the table's columns: {answer.fault}; correct "
                "the template that has them, leave columns out by `columns`, or run `icefloe reset` for the pipeline, "
                "which loads into a new index"
            )

    def _refuse_misfit(self, index: FoundIndex, identity: Mapping[str, str], batch: ProvenBatch) -> None:
        """Raise if the documents of an index have other ids, or lack values of the table."""
        reset = "run `icefloe reset` for the pipeline, which loads into a new index"
        documents = f"{self._url}: the documents of index {index.name}"
        if (before := index.facts["identity"]) != identity:
            raise TerminalError(
                f"{documents} have ids of {_shown(before)}, and this batch has {_shown(identity)}; {reset}"
            )
        known = index.facts.get("columns", {})
        # An index knows fields by name only.
        if others := [name for name, field_id in known_columns(batch).items() if known.get(name, field_id) != field_id]:
            raise TerminalError(
                f"{documents} have the values of another column under the name {others[0]}, which was dropped or "
                f"renamed since; {reset}"
            )
        if (added := column_with_default(known, batch)) is not None:
            raise TerminalError(
                f"{documents} lack column {added}, which is new and has an initial default in their rows; {reset}"
            )

    def _find(self, name: str) -> Mapping[str, FoundIndex]:
        found = self._cluster.ask("GET", f"/{name}", allowed=(404,))
        there = {} if found.status == 404 else found.body
        return {each: FoundIndex(name=each, described=described, names=self.names) for each, described in there.items()}
