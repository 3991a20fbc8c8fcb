"""Commits of PyIceberg that do not copy the whole metadata of a table some 20 times."""

from typing import Any

from pyiceberg.table.metadata import TableMetadataCommonFields

__all__ = ["use_quick_commits"]


def use_quick_commits() -> None:
    """Makes a transaction of this process copy the lists and mappings of a table's metadata, not what they hold.

    PyIceberg copies all of it whenever a transaction looks at it: a fifth of the time of tests that write tables.
    Schemas, snapshots and the like are frozen models, so a list of the same ones is as good as a list of copies.
    """
    TableMetadataCommonFields.__deepcopy__ = _copied  # type: ignore[assignment, method-assign]


def _copied(metadata: TableMetadataCommonFields, memo: dict[int, Any] | None = None) -> TableMetadataCommonFields:
    held = {name: value.copy() if isinstance(value, dict | list) else value for name, value in metadata}
    return metadata.model_copy(update=held)
