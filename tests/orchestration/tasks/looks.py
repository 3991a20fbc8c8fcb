"""Looks of the sensor and its trigger: their results in turn."""

import asyncio
from collections.abc import Callable
from typing import Any

from icefloe.batch.open.next_batch import Work
from icefloe.orchestration.tasks.snapshot_trigger import PipelineSnapshotTrigger

__all__ = ["BEGIN", "EMPTY", "NEWS", "OPEN", "QUIET", "finding", "only_event"]

QUIET = Work(has_open_batch=False, has_new_snapshot=False, head_snapshot_id=3)
NEWS = Work(has_open_batch=False, has_new_snapshot=True, head_snapshot_id=4)
EMPTY = Work(has_open_batch=False, has_new_snapshot=False, head_snapshot_id=None)
BEGIN = Work(has_open_batch=False, has_new_snapshot=True, head_snapshot_id=None)
OPEN = Work(has_open_batch=True, has_new_snapshot=False, head_snapshot_id=3)


def finding(*found: Work | Exception) -> Callable[[Any], Work]:
    """In place of `calls.work_of`: finds these in turn, the last one for ever."""
    left = list(found)

    def work_of(_: Any) -> Work:
        next_one = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(next_one, Exception):
            raise next_one
        return next_one

    return work_of


def only_event(trigger: PipelineSnapshotTrigger) -> Any:
    """The payload of the one event of a trigger."""

    async def events() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    [payload] = asyncio.run(events())
    return payload
