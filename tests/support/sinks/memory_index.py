"""A search index in memory: documents with external versions, and refusals on demand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, Final, Literal, TypeAlias

__all__ = ["POISON", "BusyError", "ConflictError", "Document", "MemoryIndex", "MissingIndexError", "Operation"]

Document: TypeAlias = Mapping[str, Any]
Operation: TypeAlias = tuple[str, int, Document | None]
"""Id, version, and the document; None deletes it."""
Outcome: TypeAlias = Literal["done", "same", "newer", "rejected"]

POISON: Final = "poison"
"""The mapping refuses documents with this ``word``."""


class BusyError(Exception):
    """As a 429: the server has too much to do."""


class ConflictError(Exception):
    """As a 409: another document or version is there."""


class MissingIndexError(Exception):
    """As a 404: the index was removed."""


@dataclass(frozen=True)
class Stored:
    version: int
    document: Document | None


class MemoryIndex:
    """The server: indices by name, each with its documents by id.

    Attributes:
        refusals: requests of `bulk` that are still to be refused; None: all.
    """

    def __init__(self) -> None:
        self.refusals: int | None = 0
        self._indices: dict[str, dict[str, Stored]] = {"meta": {}}
        self._lock = RLock()

    def copy(self) -> "MemoryIndex":
        """Another server that holds the same."""
        made = MemoryIndex()
        made._indices = {name: dict(documents) for name, documents in self._indices.items()}
        return made

    def stored(self, index: str) -> Mapping[str, "Stored"]:
        """All documents of an index by id, and what is left of those that were deleted."""
        return self._indices.get(index, {})

    def create_index(self, name: str) -> None:
        """Makes an index if there is none of this name."""
        with self._lock:
            self._indices.setdefault(name, {})

    def delete_index(self, name: str) -> None:
        with self._lock:
            self._indices.pop(name, None)

    def index_names(self) -> list[str]:
        with self._lock:
            return sorted(self._indices)

    def get(self, index: str, key: str) -> Stored:
        """A document with its version; 0 if there is none."""
        with self._lock:
            return self._indices[index].get(key, Stored(0, {}))

    def replace(self, index: str, key: str, document: Document, *, if_version: int) -> None:
        """Stores a document if the stored one has this version."""
        with self._lock:
            if self.get(index, key).version != if_version:
                raise ConflictError(key)
            self._indices[index][key] = Stored(if_version + 1, document)

    def bulk(self, index: str, operations: Sequence[Operation]) -> list[Outcome]:
        """Stores documents whose version is higher than the stored one; a delete keeps its version."""
        with self._lock:
            if self.refusals is None or self.refusals > 0:
                self.refusals = None if self.refusals is None else self.refusals - 1
                raise BusyError(index)
            if index not in self._indices:
                raise MissingIndexError(index)
            return [self._store(self._indices[index], *operation) for operation in operations]

    def scan(self, index: str) -> list[Document]:
        with self._lock:
            if index not in self._indices:
                raise MissingIndexError(index)
            return [stored.document for stored in self._indices[index].values() if stored.document is not None]

    def _store(self, documents: dict[str, Stored], key: str, version: int, document: Document | None) -> Outcome:
        stored = documents.get(key, Stored(-1, None))
        if stored.version >= version:
            return "same" if stored.version == version else "newer"
        if document is not None and document.get("word") == POISON:
            return "rejected"
        documents[key] = Stored(version, document)
        return "done"
