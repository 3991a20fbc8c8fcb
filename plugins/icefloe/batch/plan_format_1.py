"""Plans of format 1, as releases before format 2 wrote them, in the shape of today."""

import json
from typing import Any, Final

__all__ = ["upgraded_plan"]

_DROPPED: Final = ("checkpoint_url", "batch_url", "memory_bytes", "on_summary_mismatch")
"""Keys that are known from the place of the plan, or are read from the pipeline file when a task runs."""


def upgraded_plan(data: bytes) -> bytes:
    """The plan without the keys that format 2 leaves out, still with ``version`` 1; other versions stay as they are.

    Args:
        data: content of ``plan.json``. If it is no JSON object, it stays as it is, and the strict reader refuses it.
    """
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if not isinstance(document, dict) or document.get("version") != 1:
        return data
    return json.dumps({key: value for key, value in document.items() if key not in _DROPPED}).encode()
