"""An index that the cluster has, and the facts that batches leave at it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from icefloe.sinks.batch_to_deliver import ProvenBatch
from icefloe.sinks.opensearch.index_names import IndexNames
from icefloe.sinks.opensearch.known_columns import known_columns
from icefloe.units import parse_seconds

_META: Final = "icefloe"
_COLUMNS: Final = "columns"
_LEAST_GC_SECONDS: Final = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundIndex:
    """An index as the cluster describes it, to the sink that asks.

    Attributes:
        name: its own, which is no alias.
        described: its aliases, mappings and settings.
        names: those of the sink.
    """

    name: str
    described: Mapping[str, Any]
    names: IndexNames

    @property
    def facts(self) -> Mapping[str, Any] | None:
        """The facts that a batch has left at it; None if none has, or those are of another sink."""
        found = self._facts_of_any_sink
        return found if found.get("index") == self.names.index else None

    @property
    def is_known(self) -> bool:
        """True if a batch of this sink was written to it, or was about to be."""
        return self.facts is not None

    @property
    def written_as(self) -> str | None:
        """The ``sink.index`` of the sink that has left facts at it, this one or another; None if none has."""
        return self._facts_of_any_sink.get("index")

    @property
    def version(self) -> int | None:
        """The version in the name of an index of a load; None if it is none, or another sink's."""
        return self.names.version_of(self.name) if self.is_known else None

    @property
    def columns(self) -> Mapping[str, int] | None:
        """The columns that its documents have; None if no batch has said so."""
        return (self.facts or {}).get(_COLUMNS)

    @property
    def mappings(self) -> Mapping[str, Any]:
        """Its fields and further facts, of this sink and of others."""
        return self.described.get("mappings", {})

    @property
    def aliases(self) -> Mapping[str, Any]:
        """The names that it has besides its own."""
        return self.described["aliases"]

    @property
    def uuid(self) -> str | None:
        """Its uuid with that of its history, if a restore from a snapshot has given it one; None if nobody says it.

        A restore over a closed index keeps the first one.
        """
        settings = self._settings
        found, history = settings.get("uuid"), settings.get("history", {}).get("uuid")
        return "/".join(each for each in (found, history) if each) if isinstance(found, str) else None

    @property
    def gc_deletes(self) -> str:
        """The time for which it remembers deletions."""
        return str(self._settings.get("gc_deletes", "60s"))

    @property
    def forgets_soon(self) -> bool:
        """True if a write that is repeated an hour after a deletion would bring the document back."""
        return parse_seconds(self.gc_deletes) < _LEAST_GC_SECONDS

    @property
    def _settings(self) -> Mapping[str, Any]:
        return self.described["settings"]["index"]

    @property
    def _facts_of_any_sink(self) -> Mapping[str, Any]:
        found = self.mappings.get("_meta", {}).get(_META)
        return found if isinstance(found, Mapping) else {}


def facts_to_leave(
    names: IndexNames, batch: ProvenBatch, *, identity: Mapping[str, str], before: FoundIndex | None
) -> dict[str, Any]:
    """The entry of an index's ``_meta`` that a batch leaves.

    Args:
        names: those of the sink.
        batch: the batch.
        identity: forms of the document ids.
        before: the index with the facts of earlier batches; None if it is still to be made.
    """
    known = {} if before is None else before.columns or {}
    columns = {**known, **known_columns(batch)}
    facts = {"version": 1, "index": names.index, "identity": identity}
    return {_META: {**facts, _COLUMNS: columns} if columns else facts}
