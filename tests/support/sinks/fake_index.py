"""An index in memory: its settings, and its documents with their versions."""

import uuid
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Document", "Index"]


@dataclass
class Document:
    """A document, or what is left of a deleted one."""

    version: int
    number: int
    source: dict[str, Any] | None


@dataclass
class Index:
    mappings: dict[str, Any]
    settings: dict[str, Any]
    aliases: dict[str, Any]
    documents: dict[str, Document] = field(default_factory=dict)
    uuid: str = field(default_factory=lambda: uuid.uuid4().hex)
