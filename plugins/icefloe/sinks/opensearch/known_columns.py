"""The columns whose values the documents of an index have: a name alone does not say which column it is of."""

from collections.abc import Mapping

import pyarrow as pa

from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.sinks.dotted_names import column_paths, column_type


def known_columns(batch: ProvenBatch) -> dict[str, int]:
    """Field ids of the columns that the documents of a batch show, by dotted name; empty if the batch has none."""
    return {name: field_id for name, field_id in batch.field_ids.items() if _is_shown(name, batch.shown_schema)}


def other_column(known: Mapping[str, int], batch: ProvenBatch) -> str | None:
    """A column of a batch whose name is known of another one.

    Args:
        known: field ids by the names under which documents have their values.
        batch: the next batch.
    """
    columns = known_columns(batch)
    return next((name for name, field_id in columns.items() if known.get(name, field_id) != field_id), None)


def column_with_default(known: Mapping[str, int], batch: ProvenBatch) -> str | None:
    """A new column of a batch that has a value in the rows before it, and so in no document.

    Args:
        known: field ids by the names under which documents have their values.
        batch: the next batch.
    """
    # A field of a new struct has no value in the rows before it, unless the struct has one.
    added = [name for name in sorted(batch.defaulted) if name not in known and not _is_inside_new(name, known, batch)]
    return next((name for name in added if _is_shown(name, batch.shown_schema)), None)


def _is_inside_new(name: str, known: Mapping[str, int], batch: ProvenBatch) -> bool:
    parent = name.rpartition(".")[0]
    return parent in batch.field_ids and parent not in known


def _is_shown(name: str, shown: pa.Schema) -> bool:
    """True for a column or a field of a struct that is shown, and for what is inside of a shown list or map."""
    for path in column_paths(shown):
        dotted = ".".join(path)
        if name == dotted or (name.startswith(f"{dotted}.") and not pa.types.is_struct(column_type(shown, dotted))):
            return True
    return False
