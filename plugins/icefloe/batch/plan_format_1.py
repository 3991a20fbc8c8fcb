"""Plans of format 1, as releases before format 2 wrote them, in the shape of today."""

import json
from typing import Any, Final

__all__ = ["upgraded_plan"]

_DROPPED: Final = ("checkpoint_url", "batch_url", "memory_bytes", "on_summary_mismatch")
"""Known from the place of the plan, or read from the pipeline file when a task runs."""


def upgraded_plan(data: bytes) -> bytes:
    """The same plan without what format 2 leaves out, still with ``version`` 1; other versions as they are.

    Args:
        data: what stands in ``plan.json``; what is no JSON object is left for the strict reader to refuse.
    """
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if not isinstance(document, dict) or document.get("version") != 1:
        return data
    return json.dumps({key: value for key, value in document.items() if key not in _DROPPED}).encode()
