"""The mapping of an index: from the types of columns to the types of fields."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from icefloe.errors import TerminalError
from icefloe.sinks.opensearch.row_documents import DELETED, DELETED_AT

_LONGEST_KEYWORD: Final = 8_191
"""Characters: a term of more than 32,766 bytes makes Lucene refuse the document, and a character has up to 4."""
_KEYWORD: Final = {"type": "keyword", "ignore_above": _LONGEST_KEYWORD}
_RESERVED: Final = frozenset(
    {DELETED, DELETED_AT, "_id", "_index", "_source", "_routing", "_version", "_seq_no", "_primary_term", "_size",
     "_field_names", "_ignored", "_nested_path", "_type", "_doc_count", "_data_stream_timestamp", "_tier"}
)  # fmt: skip


def field_mappings(shown: pa.Schema, identity: Sequence[str]) -> dict[str, Any]:
    """The ``properties`` of an index that shows these columns.

    A type that Iceberg may promote is mapped as what it may become, so that a promotion needs no new index. Fields keep
    a value that they cannot index, such as NaN, in the document and leave it out of searches.

    Raises:
        TerminalError: a column has a name that the cluster or the sink uses itself.
    """
    for column in shown:
        if column.name in _RESERVED or any(map(_is_unusable, _names(column))):
            raise TerminalError(
                f"column {column.name} has a name that the opensearch sink cannot use for a field; rename the column, "
                "or leave it out by `columns`",
                column=column.name,
            )
    properties = {column.name: _of_type(column.type, is_key=column.name in identity) for column in shown}
    return {
        **{name: mapping for name, mapping in properties.items() if mapping is not None},
        DELETED: {"type": "boolean"},
        DELETED_AT: {"type": "date", "format": "strict_date_optional_time_nanos"},
    }


def missing_fields(wanted: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of ``properties`` that an index lacks, also inside of objects; a dot in a name makes one."""
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
    """The name of a field, and those of all fields inside."""
    yield field.name
    for number in range(field.type.num_fields):
        yield from _names(field.type.field(number))


def _is_unusable(name: str) -> bool:
    """True if a part between dots is empty: a dot makes an object of a field. Dots at the end are left out."""
    return not all(name.rstrip(".").split("."))


def _of_type(kind: pa.DataType, *, is_key: bool = False) -> dict[str, Any] | None:
    """The mapping of a type; None for one that has no values yet."""
    if pa.types.is_struct(kind):
        return {"properties": {field.name: mapping for field in kind if (mapping := _of_type(field.type)) is not None}}
    if pa.types.is_map(kind):
        members = {"key": _of_type(kind.key_type), "value": _of_type(kind.item_type)}
        return {"properties": {name: mapping for name, mapping in members.items() if mapping is not None}}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _of_type(kind.value_type)
    if pa.types.is_null(kind):
        return None
    return _of_primitive(kind, is_key=is_key)


def _of_primitive(kind: pa.DataType, *, is_key: bool) -> dict[str, Any]:
    if pa.types.is_boolean(kind):
        return {"type": "boolean"}
    if pa.types.is_integer(kind):
        return {"type": "long"}
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return {"type": "double", "ignore_malformed": True}
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return {"type": "date", "format": "strict_date_optional_time_nanos", "ignore_malformed": True}
    if pa.types.is_time(kind) or isinstance(kind, pa.UuidType):
        return dict(_KEYWORD)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return dict(_KEYWORD) if is_key else {"type": "text", "fields": {"keyword": dict(_KEYWORD)}}
    return {"type": "binary"}
