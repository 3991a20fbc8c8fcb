"""Indexes in memory behind names and aliases, and the answers to requests about these."""

import fnmatch
import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from opensearchpy.exceptions import ConnectionError as LostConnectionError
from opensearchpy.exceptions import TransportError

__all__ = ["Document", "FakeIndexes", "Index", "conflict", "error_of", "lost_connection", "missing"]


@dataclass
class Document:
    """A document, or what is left of a deleted one."""

    version: int
    number: int
    source: dict[str, Any] | None


@dataclass
class Index:
    """Settings, and documents with their versions."""

    mappings: dict[str, Any]
    settings: dict[str, Any]
    aliases: dict[str, Any]
    documents: dict[str, Document] = field(default_factory=dict)
    uuid: str = field(default_factory=lambda: uuid.uuid4().hex)


class FakeIndexes:
    """The part of a cluster in memory that has no say about documents.

    Attributes:
        indexes: by name.
    """

    def __init__(self) -> None:
        self.indexes: dict[str, Index] = {}

    def _get(self, name: str, _data: bytes, _params: Any) -> Any:
        found = self._behind(name)
        if not found and "*" not in name:
            raise missing(name)
        return {
            key: {
                "aliases": each.aliases,
                "mappings": each.mappings,
                "settings": {"index": {**each.settings, "uuid": each.uuid}},
            }
            for key, each in found.items()
        }

    def _create(self, name: str, data: bytes, _params: Any) -> Any:
        if name != name.lower():
            raise error_of(400, "invalid_index_name_exception", "must be lowercase")
        if name in self.indexes or any(name in each.aliases for each in self.indexes.values()):
            raise error_of(400, "resource_already_exists_exception", "already exists")
        wanted = json.loads(data or b"{}")
        settings = wanted.get("settings", {})
        self.indexes[name] = Index(
            mappings=wanted.get("mappings", {}),
            settings=settings.get("index", settings),
            aliases=wanted.get("aliases", {}),
        )
        return {"acknowledged": True}

    def _delete(self, name: str, _data: bytes, _params: Any) -> Any:
        if name not in self.indexes:
            raise missing(name)
        del self.indexes[name]
        return {"acknowledged": True}

    def _put_mapping(self, name: str, data: bytes, _params: Any) -> Any:
        index = self._one(name)
        wanted = json.loads(data)
        known = index.mappings.setdefault("properties", {})
        for key, each in wanted.get("properties", {}).items():
            if key in known and known[key].get("type") != each.get("type"):
                raise error_of(400, "illegal_argument_exception", f"mapper [{key}] cannot be changed")
        known.update(wanted.get("properties", {}))
        index.mappings["_meta"] = wanted.get("_meta", index.mappings.get("_meta"))
        return {"acknowledged": True}

    def _move_aliases(self, data: bytes, _params: Any) -> Any:
        actions = [next(iter(each.items())) for each in json.loads(data)["actions"]]
        for verb, each in actions:
            if each["index"] not in self.indexes:
                raise missing(each["index"])
            if verb == "remove" and each["alias"] not in self.indexes[each["index"]].aliases:
                raise error_of(404, "aliases_not_found_exception", "aliases missing")
        for verb, each in actions:
            aliases = self.indexes[each["index"]].aliases
            if verb == "add":
                aliases[each["alias"]] = {"filter": each["filter"]} if "filter" in each else {}
            else:
                del aliases[each["alias"]]
        return {"acknowledged": True}

    def _behind(self, name: str) -> dict[str, Index]:
        if "*" in name:
            shown = {key: each for key, each in self.indexes.items() if not each.settings.get("hidden")}
            return {key: each for key, each in shown.items() if fnmatch.fnmatch(key, name)}
        return {key: each for key, each in self.indexes.items() if key == name or name in each.aliases}

    def _one(self, name: str) -> Index:
        found = list(self._behind(name).values())
        if not found:
            raise missing(name)
        [index] = found
        return index

    def _written(self, name: str, *, is_alias_required: bool) -> Index:
        if self._behind(name):
            return self._one(name)
        if is_alias_required:
            raise missing(name)
        # A delete makes a missing index even if an alias is required.
        self._create(name, b"{}", {})
        return self.indexes[name]


def lost_connection() -> Exception:
    """The error of the client when a connection breaks."""
    return LostConnectionError("N/A", "the connection broke", OSError())


def error_of(status: int, kind: str, reason: str) -> TransportError:
    """An answer of a status; without a kind, one that has no body."""
    return TransportError(status, kind, {"error": {"type": kind, "reason": reason}, "status": status} if kind else "")


def missing(name: str) -> TransportError:
    return error_of(404, "index_not_found_exception", f"no such index [{name}]")


def conflict(key: str) -> TransportError:
    return error_of(409, "version_conflict_engine_exception", f"[{key}]: version conflict")
