"""The part of a pipeline that its checkpoint records."""

import hashlib
import json
from typing import TypeAlias

from icefloe.pipeline.environment import has_reference
from icefloe.pipeline.model import Pipeline

__all__ = ["JSON", "result_configuration", "tuning_configuration"]

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"


def result_configuration(pipeline: Pipeline) -> dict[str, JSON]:
    """The keys that change the result of a batch, with their values, by dotted key.

    Text with ``${NAME}`` is recorded as it is written; ``environment_hash`` then shows whether the environment still
    gives the same values. Credentials (``conn_id``), addresses of servers, limits and sizes are left out, because they
    change nothing.

    Raises:
        ValueError: the pipeline uses ``${NAME}`` in one of these keys and is not expanded.
    """
    written = _result_values(pipeline.as_written)
    resolved = _result_values(pipeline)
    variable = {key: resolved[key] for key, value in written.items() if _uses_environment(value)}
    if variable:
        if not pipeline.is_expanded:
            raise ValueError(f"expand the pipeline first: {', '.join(variable)} use the environment")
        text = json.dumps(variable, sort_keys=True, ensure_ascii=False)
        written["environment_hash"] = hashlib.sha256(text.encode()).hexdigest()
    return written


def tuning_configuration(pipeline: Pipeline) -> dict[str, JSON]:
    """The sizes that shape a plan without changing its rows, by dotted key: an open batch keeps its own.

    Keys that help a failed batch (``memory_bytes``, ``max_scan_bytes``, ``on_summary_mismatch``, ``engine``, ``spark``)
    are left out: their present value always counts.
    """
    return {
        "shuffle.partitions": pipeline.shuffle.partitions,
        "shuffle.target_size_bytes": pipeline.shuffle.target_size_bytes,
        "shuffle.map_task_bytes": pipeline.shuffle.map_task_bytes,
        "sink.target_file_bytes": pipeline.changes_folder.target_file_bytes,
    }


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
