"""The promises of icefloe, checked at every change of the store."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from icefloe.batch.context.batch_folder import MARKER
from simulation.scenario import NAMESAKE, PIPELINE
from simulation.table import TableStates
from simulation.world import Change, Watcher

__all__ = [
    "CHECKPOINT",
    "MOVES",
    "SHUFFLE",
    "TRIAL",
    "UNDELIVERED",
    "BrokenPromiseError",
    "Places",
    "Promises",
    "flat_commit",
    "is_path",
]

MOVES: Final = ("cursor_set", "reset")
"""Ends of batches by which an operator moves the cursor to where it is to be."""
UNDELIVERED: Final = (*MOVES, "abandoned")
"""Ends of batches whose changes do not count."""


def flat_commit(record: Mapping[str, Any]) -> dict[str, Any]:
    """A commit record with the facts of its ending beside the others; its route is the outcome if nothing arrived."""
    outcome, cursor = record["ending"]["outcome"], record["ending"]["cursor"]
    return {
        **record,
        "batch_number": cursor["batch_number"],
        "up_to_snapshot_id": cursor["snapshot_id"],
        "is_beginning": cursor.get("is_beginning", False),
        "route": record["route"] if outcome == "delivered" else outcome,
    }


def is_path(states: TableStates, heads: Sequence[int], commits: Sequence[Mapping[str, Any]]) -> bool:
    """True if the cursor of some batches has only gone on, and back only as the table was rolled back.

    Args:
        states: of the table.
        heads: commits to which the table has moved, in order.
        commits: commit records of batches, in order.
    """
    cursor, position = None, 0
    for commit in commits:
        before, cursor = cursor, None if commit["up_to_snapshot_id"] is None else int(commit["up_to_snapshot_id"])
        if commit["route"] in MOVES or commit.get("is_beginning"):
            # Anywhere from now on. A reset may give up a batch that is half delivered.
            position = 0
            cursor = cursor if commit["route"] == "cursor_set" else None
        elif cursor is not None:
            found = (i for i in range(position, len(heads)) if _leads(states, heads[i], before, cursor))
            position = next(found, len(heads))
            if position == len(heads):
                return False
    return True


def _leads(states: TableStates, head: int, before: int | None, after: int) -> bool:
    """True if a table with this head leads a cursor from one commit to another: over their fork, or straight on."""
    lineage, behind = states.lineage(head), states.lineage(before)
    fork = next((each for each in behind if each in lineage), None)
    return after in lineage and (fork is None or fork in states.lineage(after))


CHECKPOINT: Final = f"storage/checkpoints/{PIPELINE}/"
"""Folder of the checkpoint of the pipeline."""
_CHECKPOINT: Final = re.compile(rf"({CHECKPOINT}|{NAMESAKE}/)(backfills/[^/]+/)?(.+)")
_NUMBERED: Final = re.compile(r"(owners|offsets|commits)/(\d+)\.json")
SHUFFLE: Final = re.compile(rf"storage/shuffle/{PIPELINE}/([^/]+)/(\d+)/(.+)")
_CHANGES: Final = re.compile(r"(.*?)(_backfills/[^/]+/)?batch=(\d+)/(.+)")
TRIAL: Final = re.compile(r"/(_probe-|_clock\.probes/)")
_ATTEMPT: Final = re.compile(r"(\d+)\.(\d+)\.([0-9a-f]{32})\.(?:data|index)")
_OF_A_RUN: Final = re.compile(r"(phases|errors)/.+")


class BrokenPromiseError(AssertionError):
    """icefloe did what it promises never to do."""


@dataclass(slots=True, kw_only=True)
class Places:
    """The documents of a checkpoint and of its batches, found in the store.

    Attributes:
        objects: content by key.
        checkpoint: folder of the checkpoint.
        changes: folder of the changes, at the sink or on their way to it.
        delivers: True if they are on their way to it.
        keeps: True if they stay once they have arrived.
    """

    objects: dict[str, bytes]
    checkpoint: str = CHECKPOINT
    changes: str = "changes/"
    delivers: bool = False
    keeps: bool = True

    def document(self, key: str) -> dict[str, Any] | None:
        """The JSON under a key; None if there is none."""
        data = self.objects.get(key)
        return None if data is None else json.loads(data)

    def commits(self, backfill: str) -> list[dict[str, Any]]:
        """The commit records of a checkpoint, in order."""
        found: list[dict[str, Any]] = []
        while (commit := self.document(f"{self.checkpoint}{backfill}commits/{len(found)}.json")) is not None:
            found.append(flat_commit(commit))
        return found

    def spec(self, number: int, *, backfill: str = "") -> dict[str, Any]:
        """The specification in the offset record of a batch; empty if there is none."""
        offset = self.document(f"{self.checkpoint}{backfill}offsets/{number}.json") or {"spec": {}}
        spec: dict[str, Any] = offset["spec"]
        return spec

    def open_range(self, number: int, *, backfill: str = "") -> set[int]:
        """The snapshots between which an open batch lies; none if its number has no offset record."""
        spec = self.spec(number, backfill=backfill)
        return {int(each) for key in ("after_snapshot_id", "up_to_snapshot_id") if (each := spec.get(key)) is not None}

    def all_commits(self) -> Iterator[dict[str, Any]]:
        """The commit records of all checkpoints."""
        for key, data in self.objects.items():
            match = _CHECKPOINT.fullmatch(key)
            if match is not None and match[3].startswith("commits/"):
                yield flat_commit(json.loads(data))

    def manifest(self, backfill: str, number: int) -> dict[str, Any] | None:
        """The manifest of a batch; None if the batch is not whole."""
        return self.document(f"{self.changes_of(backfill, number)}_manifest.json")

    def changes_of(self, backfill: str, number: int) -> str:
        """Folder of the changes of a batch."""
        return f"{self.changes}{backfill and f'_{backfill}'}batch={number}/"

    def may_go(self, backfill: str, number: int) -> bool:
        """True if the changes of a batch may be deleted: they have arrived, and so have those of the next batch."""
        next_commit = f"{self.checkpoint}{backfill}commits/{number + 1}.json"
        return not self.keeps and not backfill and next_commit in self.objects


@dataclass(slots=True, kw_only=True)
class Promises(Watcher):
    """Holds every change of the store to the promises.

    Attributes:
        places: the places of the pipeline.
        others: those of the pipelines that share something with it by mistake.
        states: of the table.
        heads: see `World`.
        open: batches that are open, as (checkpoint id, number), with the backfill that they are of.
        damaged: number of files that are damaged, or look so in a listing: their tasks may deliver again.
        may_take_over: names of actors whose runs make the checkpoint their own.
    """

    places: Places
    others: Sequence[Places] = ()
    states: TableStates
    heads: Sequence[int]
    open: dict[tuple[str, int], str] = field(default_factory=dict)
    damaged: int = 0
    may_take_over: frozenset[str] = frozenset()

    def changed(self, change: Change) -> None:
        if change.by == "damage":
            self.damaged += 1
            return
        key = change.key
        if TRIAL.search(key):
            return
        if (match := _CHECKPOINT.fullmatch(key)) is not None:
            self._checkpoint_changed(change, match[1], match[2] or "", match[3])
        elif (match := SHUFFLE.fullmatch(key)) is not None:
            if (match[1], int(match[2])) in self.open:
                self._open_batch_changed(change, match[3])
        elif (match := _CHANGES.fullmatch(key)) is not None:
            places = next(each for each in (self.places, *self.others) if each.changes == match[1])
            self._sink_changed(places, change, (match[2] or "").removeprefix("_"), int(match[3]), match[4])
        elif change.before is not None and change.after != change.before and not key.endswith(f"/{MARKER}"):
            raise BrokenPromiseError(f"{change.by} changed {key}, which is written once")

    def expired(self, snapshot_id: int) -> None:
        """See `Watcher`: an open batch keeps the snapshots between which it lies."""
        for (_, number), backfill in self.open.items():
            if snapshot_id in self.places.open_range(number, backfill=backfill):
                raise BrokenPromiseError(f"snapshot {snapshot_id} of the open batch {number} was not kept")

    def misled(self) -> None:
        self.damaged += 1

    def _checkpoint_changed(self, change: Change, root: str, backfill: str, name: str) -> None:
        if name == "status.json":
            return
        if change.before is not None:
            raise BrokenPromiseError(f"{change.by} changed the record {change.key}, which is written once")
        numbered = _NUMBERED.fullmatch(name)
        if numbered is None:
            return
        if numbered[1] == "owners":
            self._require_free(change, f"{root}{backfill}", int(numbered[2]))
            return
        number, record = int(numbered[2]), json.loads(change.after or b"")
        self._require_owner(change, f"{root}{backfill}", record)
        if numbered[1] == "offsets":
            self.open[record["checkpoint_id"], number] = backfill
            return
        record = flat_commit(record)
        self._require_next(change, f"{root}{backfill}", number, record)
        self._require_whole(change, backfill, number, record)
        self.open.pop((record["checkpoint_id"], number), None)

    def _require_free(self, change: Change, checkpoint: str, number: int) -> None:
        """A checkpoint that belongs to somebody goes to another owner only if that one takes it over."""
        before = self.places.document(f"{checkpoint}owners/{number - 1}.json")
        if before is not None and before["writer"]["owner"] is not None and change.by not in self.may_take_over:
            raise BrokenPromiseError(f"{change.by} took the checkpoint of {before['writer']['owner']}")

    def _require_owner(self, change: Change, checkpoint: str, record: dict[str, Any]) -> None:
        """Nobody writes to a checkpoint who was never its owner."""
        writer = record.get("opened_by") or record["committed_by"]
        owners: list[str | None] = []
        while (owner := self.places.document(f"{checkpoint}owners/{len(owners)}.json")) is not None:
            owners.append(owner["writer"]["owner"])
        if writer["owner"] not in owners:
            raise BrokenPromiseError(f"{change.by} wrote {change.key} and never owned the checkpoint")

    def _require_next(self, change: Change, checkpoint: str, number: int, record: dict[str, Any]) -> None:
        """The cursor goes on from where it was."""
        if (record["checkpoint_id"], number) not in self.open:
            raise BrokenPromiseError(f"{change.by} committed {change.key}, which was not open")
        move = self._asked_move(checkpoint, number)
        if (record["route"] if record["route"] in MOVES else None) != move:
            raise BrokenPromiseError(f"{change.key} ends as {record['route']}, and was opened as {move or 'a batch'}")
        if number > 0:
            before = self.places.document(f"{checkpoint}commits/{number - 1}.json")
            if before is None:
                raise BrokenPromiseError(f"{change.by} committed {change.key} before the batch before it")
            if move is None:
                self._require_goes_on(change, record, self._commits_before(checkpoint, number))

    def _require_whole(self, change: Change, backfill: str, number: int, record: dict[str, Any]) -> None:
        """The batch is whole at the sink, whose path belongs to its checkpoint."""
        places = next(each for each in (self.places, *self.others) if change.key.startswith(each.checkpoint))
        if places.manifest(backfill, number) is None:
            raise BrokenPromiseError(f"{change.by} committed {change.key}, and the batch has no manifest")
        claim = places.document(f"{places.changes}{backfill and f'_{backfill}'}_icefloe.json")
        if claim is None or claim["owner"] != record["checkpoint_id"]:
            raise BrokenPromiseError(f"{change.by} committed {change.key} at a path of another checkpoint")

    def _asked_move(self, checkpoint: str, number: int) -> str | None:
        """The move of the cursor that an operator recorded as a batch; None for a batch of a run."""
        offset = self.places.document(f"{checkpoint}offsets/{number}.json")
        outcome = "delivered" if offset is None else str(offset["ending"]["outcome"])
        return outcome if outcome in MOVES else None

    def _commits_before(self, checkpoint: str, number: int) -> list[dict[str, Any]]:
        documents = (self.places.document(f"{checkpoint}commits/{each}.json") for each in range(number))
        return [flat_commit(document) for document in documents if document is not None]

    def _require_goes_on(self, change: Change, record: dict[str, Any], commits: Sequence[dict[str, Any]]) -> None:
        before = commits[-1]
        if record.get("is_beginning") and not before.get("is_beginning"):
            self._require_half_delivered(change, record)
        elif not record.get("load_part") and record["after_snapshot_id"] != before["up_to_snapshot_id"]:
            raise BrokenPromiseError(
                f"{change.key} begins after {record['after_snapshot_id']}, the batch before it ended at "
                f"{before['up_to_snapshot_id']}"
            )
        if not is_path(self.states, self.heads, [*commits, record]):
            raise BrokenPromiseError(f"{change.key} moves the cursor backwards")

    def _require_half_delivered(self, change: Change, record: dict[str, Any]) -> None:
        """Only a batch that is proven, and of which a sink may hold a part, ends at the beginning."""
        manifest = self.places.manifest("", record["batch_number"])
        if not self.places.delivers or manifest is None or manifest["batch"]["up_to_snapshot_id"] is None:
            raise BrokenPromiseError(f"{change.key} lets the pipeline begin again, and was not half delivered")

    def _open_batch_changed(self, change: Change, name: str) -> None:
        """Nothing goes that the rerun of an open batch needs, and nothing changes that a task has relied on."""
        if change.before is None or change.after == change.before or _OF_A_RUN.fullmatch(name):
            return
        attempt = _ATTEMPT.fullmatch(name)
        if attempt is not None:
            folder = change.key.removesuffix(name)
            commit = f"{folder}{attempt[1]}.{attempt[2]}"
            record = self.places.document(commit)
            # Nobody reads the files of a void generation, so the attempt that made it takes them with it.
            if record is None or record["attempt"] != attempt[3] or f"{commit}.void" in self.places.objects:
                return
        if name.startswith("results/") and change.after is None and self.damaged:
            return
        verb = "deleted" if change.after is None else "changed"
        raise BrokenPromiseError(f"{change.by} {verb} {change.key} of an open batch")

    def _sink_changed(self, places: Places, change: Change, backfill: str, number: int, name: str) -> None:
        """A reader who found the manifest finds the files that it names, for ever or until they have arrived."""
        if change.after is None and places.may_go(backfill, number):
            return
        if name == "_manifest.json":
            if change.before is not None:
                raise BrokenPromiseError(f"{change.by} changed the manifest {change.key}")
            # A process that slept since its batch arrived may say once more what it was: the next cleanup takes it.
            if not places.may_go(backfill, number):
                self._require_parts(change, json.loads(change.after or b""))
            return
        manifest = places.manifest(backfill, number)
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
