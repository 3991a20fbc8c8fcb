"""The keys of a pipeline that its checkpoint records."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from icefloe.pipeline.environment import has_reference
from icefloe.pipeline.model import Pipeline

__all__ = ["JSON", "ChangesPlace", "result_configuration", "tuning_configuration"]

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"


def result_configuration(pipeline: Pipeline) -> dict[str, JSON]:
    """The keys that change the result of a batch, with their values, by dotted key.

    ``${NAME}`` is recorded as written; ``environment_hash`` shows whether it still has the same values. Credentials
    (``conn_id``), addresses of servers, limits and sizes change nothing and are left out.

    Raises:
        ValueError: one of these keys has ``${NAME}`` and is not expanded.
    """
    written = _result_values(pipeline.as_written)
    resolved = _result_values(pipeline)
    variable = {key: resolved[key] for key, value in written.items() if _uses_environment(value)}
    if variable:
        if not pipeline.is_expanded:
            raise ValueError(f"expand the pipeline first: {', '.join(variable)} use the environment")
        written["environment_hash"] = _hash_of(variable)
    return written


def tuning_configuration(pipeline: Pipeline) -> dict[str, JSON]:
    """The sizes that shape a plan without changing its rows, by dotted key: an open batch keeps its own.

    Keys that help a failed batch (``memory_bytes``, ``max_scan_bytes``, ``on_summary_mismatch``, ``engine``, ``spark``)
    are left out: their present value counts.
    """
    return {
        "shuffle.partitions": pipeline.shuffle.partitions,
        "shuffle.target_size_bytes": pipeline.shuffle.target_size_bytes,
        "shuffle.map_task_bytes": pipeline.shuffle.map_task_bytes,
        "sink.target_file_bytes": pipeline.changes_folder.target_file_bytes,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesPlace:
    """The folder to which tasks write changes, where every proof of delivery begins.

    Attributes:
        hash: of the expanded path; None: nothing to expand.
        keys: those of the pipeline file that decide it.
    """

    path: str
    hash: str | None
    keys: str

    @classmethod
    def of(cls, pipeline: Pipeline) -> "ChangesPlace":
        """The folder as file and environment say now."""
        path = pipeline.as_written.changes_folder.path
        return cls(
            path=path,
            hash=_hash_of(pipeline.changes_folder.path) if has_reference(path) else None,
            keys="changelog.path or storage" if pipeline.delivers else "sink.path",
        )

    @classmethod
    def recorded(cls, configuration: Mapping[str, object]) -> "ChangesPlace | None":
        """The folder in an offset record; None if the batch only moves the cursor."""
        path, is_staged = configuration.get("changes_folder"), configuration.get("sink.type") != "files"
        is_staged = is_staged or configuration.get("changes") in ("upsert", "append_only")
        if not isinstance(path, str):
            return None
        known = configuration.get("changes_folder_hash")
        return cls(
            path=path,
            hash=known if isinstance(known, str) else None,
            keys="changelog.path or storage" if is_staged else "sink.path",
        )

    @property
    def configuration(self) -> dict[str, JSON]:
        """The keys that name the folder in an offset record."""
        return {"changes_folder": self.path, **({} if self.hash is None else {"changes_folder_hash": self.hash})}

    def may_be(self, other: "ChangesPlace") -> bool:
        """True unless the two are known to differ."""
        return self.path == other.path and (None in (self.hash, other.hash) or self.hash == other.hash)


def _hash_of(value: JSON) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _result_values(pipeline: Pipeline) -> dict[str, JSON]:
    sink = pipeline.sink
    return {
        "table": pipeline.table,
        "branch": pipeline.branch,
        "identifier_columns": _list(pipeline.identifier_columns),
        "columns": _list(pipeline.columns),
        "filter": pipeline.filter,
        "changes": pipeline.changes,
        "commit_groups": pipeline.commit_groups,
        "sink.type": sink.type,
        "sink.path": sink.path,
        "sink.format": sink.format,
        **{f"sink.{key}": value for key, value in sink.destination.items()},
    }


def _list(names: tuple[str, ...] | None) -> list[JSON] | None:
    return None if names is None else list(names)


def _uses_environment(value: JSON) -> bool:
    if isinstance(value, dict):
        return any(_uses_environment(below) for below in value.values())
    if isinstance(value, list):
        return any(_uses_environment(below) for below in value)
    return has_reference(value)
