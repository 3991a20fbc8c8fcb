"""Names of indexes, and the facts that batches leave there."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from icefloe.sinks.batch_to_deliver import ProvenBatch, column_paths, column_type

_META: Final = "icefloe"
_COLUMNS: Final = "columns"


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
        """The alias by which an index is written, which goes when the index goes.

        A cluster makes an index of an unknown name, but not with capital letters: a late write to a removed index
        creates nothing.
        """
        return f"{target}-WRITER"

    def version_of(self, name: str) -> int | None:
        """The version in the name of a load's index; None: another form."""
        found = re.fullmatch(rf"{re.escape(self.index)}-(\d+)", name)
        return int(found[1]) if found else None


def version_of_batch(generation: int, batch_number: int) -> int:
    """The version of every document of a batch: greater for later batches and later owners."""
    return generation << 32 | batch_number


def batch_number_of(version: int) -> int:
    """The batch number in a version."""
    return version & (1 << 32) - 1


def generation_of(version: int) -> int:
    """The generation that a version was made with."""
    return version >> 32


def known_columns(batch: ProvenBatch) -> dict[str, int]:
    """Field ids of the shown columns, by dotted name."""
    is_shown = _shown_by(batch)
    return {name: field_id for name, field_id in batch.field_ids.items() if is_shown(name)}


def other_column(known: Mapping[str, int], batch: ProvenBatch) -> str | None:
    """A column of a batch whose name belonged to another one."""
    columns = known_columns(batch)
    return next((name for name, field_id in columns.items() if known.get(name, field_id) != field_id), None)


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
        found = self.mappings.get("_meta", {}).get(_META)
        return found if isinstance(found, Mapping) else {}

    @property
    def is_known(self) -> bool:
        """True if a batch of this sink made it."""
        return self.facts.get("index") == self.names.index

    @property
    def version(self) -> int | None:
        """The version in the name of this sink's index of a load, or None."""
        return self.names.version_of(self.name) if self.is_known else None

    @property
    def columns(self) -> Mapping[str, int] | None:
        """The columns of its documents, if known."""
        return self.facts.get(_COLUMNS)

    @property
    def mappings(self) -> Mapping[str, Any]:
        """Its fields and facts, of any sink."""
        return self.described.get("mappings", {})

    @property
    def uuid(self) -> str | None:
        """Its uuid with that of its history, if restored from a snapshot, and if known.

        A restore over a closed index keeps the first one.
        """
        settings = self.described["settings"]["index"]
        found, history = settings.get("uuid"), settings.get("history", {}).get("uuid")
        return "/".join(each for each in (found, history) if each) if isinstance(found, str) else None


def facts_to_leave(
    names: IndexNames, batch: ProvenBatch, *, identity: Mapping[str, str], before: FoundIndex | None
) -> dict[str, Any]:
    """The ``_meta`` entry that a batch leaves at its index.

    Args:
        before: None: the index is still to be made.
    """
    known = {} if before is None else before.columns or {}
    columns = {**known, **known_columns(batch)}
    facts = {"version": 1, "index": names.index, "identity": identity}
    return {_META: {**facts, _COLUMNS: columns} if columns else facts}
