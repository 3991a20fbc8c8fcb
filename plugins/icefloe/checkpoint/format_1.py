"""Offsets of format 1, as releases before format 2 wrote them, in the shape of today."""

import json
from typing import Any, Final

_SPEC: Final = ("after_snapshot_id", "up_to_snapshot_id", "steps", "skipped_replace_snapshots", "identity")
_RESULT: Final = ("changes", "columns", "filter")
_SIZES: Final = {
    "shuffle.partitions": "partitions",
    "shuffle.target_size_bytes": "target_size_bytes",
    "shuffle.map_task_bytes": "map_task_bytes",
    "sink.target_file_bytes": "target_file_bytes",
}


def upgraded_offset(data: bytes) -> bytes:
    """The same offset in the shape of format 2, still with ``version`` 1; damaged data stays damaged.

    Keys that no release wrote stay in place, so that the strict reader refuses them.

    Args:
        data: a JSON object.
    """
    document: dict[str, Any] = json.loads(data)
    sizes = document.pop("tuning_configuration", {})
    meaning = document.get("result_configuration")
    document["spec"] = {
        **{key: document.pop(key) for key in _SPEC if key in document},
        **_known(meaning, {key: key for key in _RESULT}),
        **_known(sizes, _SIZES),
        "cores": None,
        "planner_version": 1,
    }
    return json.dumps(document).encode()


def _known(found: object, names: dict[str, str]) -> dict[str, object]:
    return {name: found[key] for key, name in names.items() if key in found} if isinstance(found, dict) else {}
