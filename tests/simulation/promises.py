"""The promises of icefloe, checked at every change of the store."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from icefloe.batch.context.folder_marker import MARKER
from simulation.scenario import PIPELINE
from simulation.table import TableStates
from simulation.world import Change

__all__ = ["MOVES", "SHUFFLE", "TRIAL", "BrokenPromiseError", "Places", "Promises"]

MOVES: Final = ("cursor_set", "reset")
"""Ends of batches by which an operator moves the cursor to where it is to be."""
_CHECKPOINT: Final = re.compile(rf"storage/checkpoints/{PIPELINE}/(backfills/[^/]+/)?(.+)")
_NUMBERED: Final = re.compile(r"(offsets|commits)/(\d+)\.json")
SHUFFLE: Final = re.compile(rf"storage/shuffle/{PIPELINE}/([^/]+)/(\d+)/(.+)")
_SINK: Final = re.compile(r"changes/(_backfills/[^/]+/)?batch=(\d+)/(.+)")
TRIAL: Final = re.compile(r"/(_probe-|_clock\.probes/)")
_ATTEMPT: Final = re.compile(r"(\d+)\.(\d+)\.([0-9a-f]{32})\.(?:data|index|statistics)")
_OF_A_RUN: Final = re.compile(r"(phases|errors)/.+")


class BrokenPromiseError(AssertionError):
    """icefloe did what it promises never to do."""


@dataclass(slots=True, kw_only=True)
class Places:
    """The documents of a checkpoint and of its batches, found in the store.

    Attributes:
        objects: content by key.
    """

    objects: dict[str, bytes]

    def document(self, key: str) -> dict[str, Any] | None:
        """The JSON under a key; None if there is none."""
        data = self.objects.get(key)
        return None if data is None else json.loads(data)

    def commits(self, backfill: str) -> list[dict[str, Any]]:
        """The commit records of a checkpoint, in order."""
        found: list[dict[str, Any]] = []
        while (commit := self.document(f"{checkpoint_prefix(backfill)}commits/{len(found)}.json")) is not None:
            found.append(commit)
        return found

    def all_commits(self) -> Iterator[dict[str, Any]]:
        """The commit records of all checkpoints."""
        for key, data in self.objects.items():
            match = _CHECKPOINT.fullmatch(key)
            if match is not None and match[2].startswith("commits/"):
                yield json.loads(data)

    def manifest(self, backfill: str, number: int) -> dict[str, Any] | None:
        """The manifest of a batch; None if the batch is not whole."""
        return self.document(f"changes/{backfill and f'_{backfill}'}batch={number}/_manifest.json")


def checkpoint_prefix(backfill: str) -> str:
    """The folder of the checkpoint of a backfill ``backfills/<id>/``, or of the pipeline if it is empty."""
    return f"storage/checkpoints/{PIPELINE}/{backfill}"


@dataclass(slots=True, kw_only=True)
class Promises:
    """Holds every change of the store to the promises.

    Attributes:
        places: the store.
        states: of the table.
        open: batches that are open, as (checkpoint id, number), with the backfill that they are of.
        damaged: names of files that the simulation has damaged: icefloe may remove them.
    """

    places: Places
    states: TableStates
    open: dict[tuple[str, int], str] = field(default_factory=dict)
    damaged: int = 0

    def changed(self, change: Change) -> None:
        """See `Watcher`."""
        if change.by == "damage":
            self.damaged += 1
            return
        key = change.key
        if TRIAL.search(key):
            return
        if (match := _CHECKPOINT.fullmatch(key)) is not None:
            self._checkpoint_changed(change, match[1] or "", match[2])
        elif (match := SHUFFLE.fullmatch(key)) is not None:
            if (match[1], int(match[2])) in self.open:
                self._open_batch_changed(change, match[3])
        elif (match := _SINK.fullmatch(key)) is not None:
            self._sink_changed(change, (match[1] or "").removeprefix("_"), int(match[2]), match[3])
        elif change.before is not None and change.after != change.before and not key.endswith(f"/{MARKER}"):
            raise BrokenPromiseError(f"{change.by} changed {key}, which is written once")

    def _checkpoint_changed(self, change: Change, backfill: str, name: str) -> None:
        if name == "status.json":
            return
        if change.before is not None:
            raise BrokenPromiseError(f"{change.by} changed the record {change.key}, which is written once")
        numbered = _NUMBERED.fullmatch(name)
        if numbered is None:
            return
        number, record = int(numbered[2]), json.loads(change.after or b"")
        if numbered[1] == "offsets":
            self.open[record["checkpoint_id"], number] = backfill
            return
        self._require_next(change, backfill, number, record)
        self.open.pop((record["checkpoint_id"], number), None)

    def _require_next(self, change: Change, backfill: str, number: int, record: dict[str, Any]) -> None:
        """The cursor goes on from where it was, and the batch is whole at the sink."""
        if (record["checkpoint_id"], number) not in self.open:
            raise BrokenPromiseError(f"{change.by} committed {change.key}, which was not open")
        move = self._asked_move(backfill, number)
        if (record["route"] if record["route"] in MOVES else None) != move:
            raise BrokenPromiseError(f"{change.key} ends as {record['route']}, and was opened as {move or 'a batch'}")
        if number > 0:
            before = self.places.document(f"{checkpoint_prefix(backfill)}commits/{number - 1}.json")
            if before is None:
                raise BrokenPromiseError(f"{change.by} committed {change.key} before the batch before it")
            if move is None:
                self._require_goes_on(change, record, before)
        manifest = self.places.manifest(backfill, number)
        if manifest is None:
            raise BrokenPromiseError(f"{change.by} committed {change.key}, and the batch has no manifest")

    def _asked_move(self, backfill: str, number: int) -> str | None:
        """The move of the cursor that an operator recorded as a batch; None for a batch of a run."""
        offset = self.places.document(f"{checkpoint_prefix(backfill)}offsets/{number}.json")
        move = None if offset is None else offset.get("move")
        return None if move is None else str(move["outcome"])

    def _require_goes_on(self, change: Change, record: dict[str, Any], before: dict[str, Any]) -> None:
        if not record.get("load_part") and record["after_snapshot_id"] != before["up_to_snapshot_id"]:
            raise BrokenPromiseError(
                f"{change.key} begins after {record['after_snapshot_id']}, the batch before it ended at "
                f"{before['up_to_snapshot_id']}"
            )
        if self._place(record["up_to_snapshot_id"]) < self._place(before["up_to_snapshot_id"]):
            raise BrokenPromiseError(f"{change.key} moves the cursor backwards")

    def _place(self, snapshot_id: str | None) -> int:
        return self.states.places[None if snapshot_id is None else int(snapshot_id)]

    def _open_batch_changed(self, change: Change, name: str) -> None:
        """Nothing goes that the rerun of an open batch needs, and nothing changes that a task has relied on."""
        if change.before is None or change.after == change.before or _OF_A_RUN.fullmatch(name):
            return
        attempt = _ATTEMPT.fullmatch(name)
        if attempt is not None:
            folder = change.key.removesuffix(name)
            record = self.places.document(f"{folder}{attempt[1]}.{attempt[2]}")
            if record is None or record["attempt"] != attempt[3]:
                return
        if name.startswith("results/") and change.after is None and self.damaged:
            return
        verb = "deleted" if change.after is None else "changed"
        raise BrokenPromiseError(f"{change.by} {verb} {change.key} of an open batch")

    def _sink_changed(self, change: Change, backfill: str, number: int, name: str) -> None:
        """A reader who found the manifest finds the files that it names, for ever."""
        if name == "_manifest.json":
            if change.before is not None:
                raise BrokenPromiseError(f"{change.by} changed the manifest {change.key}")
            self._require_parts(change, json.loads(change.after or b""))
            return
        manifest = self.places.manifest(backfill, number)
        if manifest is None or change.before is None or change.after == change.before:
            return
        if any(name in part["names"] for part in manifest["parts"]):
            raise BrokenPromiseError(f"{change.by} changed {change.key}, which a manifest names")

    def _require_parts(self, change: Change, manifest: dict[str, Any]) -> None:
        folder = change.key.rpartition("/")[0]
        for part in manifest["parts"]:
            found = [self.places.objects.get(f"{folder}/{name}") for name in part["names"]]
            if None in found or sum(len(data) for data in found if data is not None) != part["size_bytes"]:
                raise BrokenPromiseError(f"{change.key} names {part['names']}, which are gone or cut")
