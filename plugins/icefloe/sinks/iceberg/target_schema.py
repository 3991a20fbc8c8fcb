"""Columns of a target that follow the columns of the source: by field id where ids are known, never by name alone."""

from collections.abc import Iterator, Mapping, Set
from contextlib import suppress

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import ResolveError
from pyiceberg.schema import Schema, promote
from pyiceberg.table import Transaction
from pyiceberg.types import BinaryType, IcebergType, ListType, MapType, NestedField, StringType, StructType

from icefloe.errors import TerminalError, one_line
from icefloe.sinks.iceberg.target import UNFIT


def evolve(
    transaction: Transaction,
    columns: pa.Schema,
    field_ids: Mapping[str, int],
    fields: Mapping[int, int],
    *,
    is_anew: bool = False,
    place: str,
) -> dict[int, int]:
    """Stage the changes of the target's schema that rows with these columns need.

    ============================================  ==========================================================
    in the source                                 in the target
    ============================================  ==========================================================
    a new column                                  is added, and is null in earlier rows
    a column with a wider type                    gets the wider type
    a renamed column                              gets the new name, also in another case
    a dropped column                              stays, and is null from now on
    a new column with the name of a dropped one   is added; the old one is called ``<name>_<its field id>`` now,
                                                  with further ``_`` if there is such a column, too
    ============================================  ==========================================================

    Args:
        columns: of the rows, with the names that the source has now.
        field_ids: of the source by dotted name; empty: columns are taken by name.
        fields: ids of the target's columns by field id of the source, as recorded.
        is_anew: True if columns are taken by name, because the source may have been made again, with other ids. One of
            another type steps aside, as one that was dropped does.

    Returns:
        ``fields`` after the change. Columns that a source before left have no id of the source, but a negative number.
    """
    try:
        # Not without a rename: PyIceberg adds an empty schema once more, and a server refuses that.
        struct = transaction.table_metadata.schema().as_struct()
        if renames := [] if is_anew else [*_renames(struct, field_ids, fields)]:
            with transaction.update_schema() as update:
                for path, name in renames:
                    update.rename_column(path, name)
        schema = transaction.table_metadata.schema()
        if is_anew and (aside := _unlike(schema, columns)):
            with transaction.update_schema() as update:
                for each in aside:
                    update.rename_column(each.name, _aside(each, {*schema.column_names, *columns.names}))
        there = _ids(schema, field_ids) if fields and not is_anew else {}
        if own := [each for source, each in there.items() if source not in fields and each not in fields.values()]:
            # Of rows that no batch touches it would have values that the source does not have.
            raise ValueError(f"column {schema.find_column_name(own[0])} is there, and no batch has filled it")
        with transaction.update_schema() as update:
            update.union_by_name(_as_required(columns, schema))
        found = _ids(transaction.table_metadata.schema(), field_ids)
        lost = [] if is_anew else [source for source in found if fields.get(source, found[source]) != found[source]]
        if lost:
            # Added anew it is null in rows that no batch touches.
            again = transaction.table_metadata.schema().find_column_name(found[lost[0]])
            raise ValueError(f"column {again} is no longer there, and earlier batches filled it")
    except UNFIT as cause:
        raise TerminalError(
            f"the columns of {place} do not fit the columns of the source: {one_line(cause)}; change it there, or "
            "name another sink.table"
        ) from cause
    left = {-each: each for each in fields.values() if each not in found.values()}
    return {**(left if is_anew else fields), **found}


def _renames(
    struct: StructType, field_ids: Mapping[str, int], fields: Mapping[int, int], *, before: str = "", now: str = ""
) -> Iterator[tuple[str, str]]:
    """Dotted names of the target's columns as they are, and their new names."""
    present = {fields[source]: name for name, source in field_ids.items() if source in fields}
    for each in struct.fields:
        is_dropped = each.field_id in fields.values() and each.field_id not in present
        # A name may have dots itself: only the names around it say where it begins.
        name = present.get(each.field_id, f"{now}{each.name}").removeprefix(now)
        if is_dropped and f"{now}{name}".lower() in {each.lower() for each in field_ids}:
            taken = {name.removeprefix(now) for name in field_ids if name.startswith(now)}
            name = _aside(each, taken.union(other.name for other in struct.fields))
        if name != each.name:
            yield f"{before}{each.name}", name
        inner, steps = _inside(each.field_type)
        if inner is not None:
            ends = {"before": f"{before}{each.name}.{steps}", "now": f"{now}{name}.{steps}"}
            yield from _renames(inner, field_ids, fields, **ends)


def _aside(column: NestedField, taken: Set[str]) -> str:
    """A name for a column whose own one is needed; names of Spark are equal in any case."""
    name, there = f"{column.name}_{column.field_id}", {each.lower() for each in taken}
    while name.lower() in there:
        name += "_"
    return name


def _inside(kind: IcebergType) -> tuple[StructType | None, str]:
    """The struct inside a type, and the steps to its fields."""
    step = ""
    while isinstance(kind, (ListType, MapType)):
        kind, name = (kind.element_type, "element") if isinstance(kind, ListType) else (kind.value_type, "value")
        step += f"{name}."
    return (kind, step) if isinstance(kind, StructType) else (None, step)


def _unlike(schema: Schema, columns: pa.Schema) -> list[NestedField]:
    """Columns of the target that cannot become those of the same name."""
    wanted = Catalog._convert_schema_if_needed(optional(columns)).fields  # noqa: SLF001
    pairs = [(each, other.field_type) for each in schema.fields for other in wanted if each.name == other.name]
    return [each for each, kind in pairs if not (_becomes(each.field_type, kind) or _becomes(kind, each.field_type))]


def _becomes(kind: IcebergType, other: IcebergType) -> bool:
    # PyIceberg would take text for binary, which the specification does not allow.
    if kind == other or {type(kind), type(other)} == {StringType, BinaryType}:
        return kind == other
    if not kind.is_primitive:
        return type(kind) is type(other)
    with suppress(ResolveError):
        promote(kind, other)
        return True
    return False


def _as_required(columns: pa.Schema, schema: Schema) -> pa.Schema:
    """Columns that are required in the target stay so."""
    required = {each.name for each in schema.fields if each.required}
    return pa.schema([each.with_nullable(each.name not in required) for each in columns])


def _ids(schema: Schema, field_ids: Mapping[str, int]) -> dict[int, int]:
    found = {}
    for name, source in field_ids.items():
        with suppress(ValueError):
            found[source] = schema.find_field(name).field_id
    return found


def optional(columns: pa.Schema) -> pa.Schema:
    """The same columns, all of which may be null, without metadata: field ids in it are the source's."""
    return pa.schema([_optional(each) for each in columns])


def _optional(column: pa.Field) -> pa.Field:
    return pa.field(column.name, _plain(column.type))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_optional(each) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _plain(kind.value_type)))
    return kind
