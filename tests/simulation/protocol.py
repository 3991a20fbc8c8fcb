"""Every document of a batch leads from one state of icefloe's protocol to another."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from icefloe.batch.plan_document import begun_key, delivery_key
from icefloe.checkpoint.protocol import Act, BatchState
from simulation.promises import MOVES, SHUFFLE, TRIAL, BrokenPromiseError, Places
from simulation.world import Change, Watcher

__all__ = ["ProtocolWatch"]

_RECORD: Final = re.compile(r"(backfills/[^/]+/)?(offsets|commits)/(\d+)\.json")
_MANIFEST: Final = re.compile(r"(_backfills/[^/]+/)?batch=(\d+)/_manifest\.json")
_OF_A_DELIVERY: Final = {begun_key(): Act.BEGIN, delivery_key(None): Act.ARRIVE}
_DECIDING: Final = (Act.OPEN, Act.RECORD, Act.GIVE_UP, Act.END)


@dataclass(slots=True, kw_only=True)
class ProtocolWatch(Watcher):
    """Follows each batch through the protocol's table, until damage takes a document.

    Attributes:
        places: of each checkpoint.
        states: by checkpoint id and number.
    """

    places: Sequence[Places]
    states: dict[tuple[str, int], BatchState] = field(default_factory=dict)
    is_damaged: bool = False

    def changed(self, change: Change) -> None:
        self.is_damaged |= change.by == "damage"
        if self.is_damaged or change.before is not None or change.after is None or TRIAL.search(change.key):
            return
        found = self._act(change.key, change.after)
        if found is None:
            return
        batch, act, is_passed_on = found
        state = self.states.get(batch, BatchState.FREE)
        if state is BatchState.ENDED and act not in _DECIDING:
            return  # a process that slept: it finds the batch over, and takes this back
        if not state.allows(act):
            raise BrokenPromiseError(f"{change.by} created {change.key} ({act.name}) of a batch that was {state.name}")
        self.states[batch] = state.after(act, is_passed_on=is_passed_on)

    def misled(self) -> None:
        self.is_damaged = True

    def _act(self, key: str, data: bytes) -> tuple[tuple[str, int], Act, bool] | None:
        """The batch, the act, and whether its changes are passed on; None if the document decides nothing."""
        if (match := SHUFFLE.fullmatch(key)) is not None:
            act = _OF_A_DELIVERY.get(match[3])
            return None if act is None else ((match[1], int(match[2])), act, True)
        for places in self.places:
            if (match := _below(places.checkpoint, _RECORD, key)) is not None:
                document = json.loads(data)
                batch = document["checkpoint_id"], int(match[3])
                # A backfill's changes are files, whatever the sink of its pipeline is.
                is_passed_on = places.delivers and not match[1]
                act = Act.OPEN if match[2] == "offsets" else self._end(batch, document, is_passed_on=is_passed_on)
                return batch, act, is_passed_on
            if (match := _below(places.changes, _MANIFEST, key)) is not None:
                backfill, number = match[1] or "", int(match[2])
                claim = places.document(f"{places.changes}{backfill}_icefloe.json") or {"owner": ""}
                asked = places.spec(number, backfill=backfill.removeprefix("_"))
                is_closed = self._is_closed(json.loads(data)["batch"], asked)
                return (claim["owner"], number), Act.CLOSE if is_closed else Act.PROVE, places.delivers and not backfill
        return None

    def _end(self, batch: tuple[str, int], commit: Mapping[str, Any], *, is_passed_on: bool) -> Act:
        if commit["ending"]["outcome"] == "delivered":
            return Act.RECORD
        # Readers of files see what has arrived: nobody gives that up.
        is_begun = is_passed_on and self.states.get(batch, BatchState.FREE).allows(Act.GIVE_UP)
        return Act.GIVE_UP if is_begun and commit["ending"]["outcome"] not in MOVES else Act.END

    @staticmethod
    def _is_closed(batch: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
        """An empty range that nobody asked for, or that moves the cursor."""
        found = batch["after_snapshot_id"], batch["up_to_snapshot_id"]
        is_asked = found == (asked.get("after_snapshot_id"), asked.get("up_to_snapshot_id")) and asked.get("steps")
        return found[0] == found[1] and not is_asked


def _below(folder: str, pattern: re.Pattern[str], key: str) -> re.Match[str] | None:
    return pattern.fullmatch(key.removeprefix(folder)) if key.startswith(folder) else None
