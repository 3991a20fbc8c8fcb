"""Files at a files sink that no manifest names: of killed tasks, and of zombies."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from icefloe.batch.upkeep.leftover import BatchState, BatchStates, Leftover, Reason
from icefloe.checkpoint.log import Checkpoint
from icefloe.sinks.change_files import ChangeFiles
from icefloe.sinks.manifest import MANIFEST, load_claim
from icefloe.storage.location import CLOCK_FOLDER, PROBE
from icefloe.storage.requests import map_parallel
from icefloe.storage.store import KeyMissingError, Store, StoredObject

_KEY: Final = re.compile(
    rf"(_backfills/(?P<backfill_id>[^/]+)/)?(batch=(?P<batch>[0-9]+)/.+|{PROBE}[^/]*|{re.escape(CLOCK_FOLDER)}/.+)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFiles:
    """A pipeline's sink path, with the output of its backfills below it.

    Attributes:
        checkpoint: of the pipeline. Its backfills have theirs below it.
        cutoff: a time of this store's clock; earlier files are old.
        is_passed: True if batches are staged there: a cleanup may be killed while it deletes one.
    """

    store: Store
    checkpoint: Checkpoint
    pipeline: str
    cutoff: datetime
    is_passed: bool = False

    def leftovers(self) -> tuple[list[Leftover], list[str]]:
        """The files that may go, and a note for each place that is left alone."""
        outputs: defaultdict[str | None, defaultdict[int, list[StoredObject]]]
        outputs, trials = defaultdict(lambda: defaultdict(list)), []
        for stored in self.store.list(""):
            match = _KEY.fullmatch(stored.key)
            if match is not None and match["batch"] is not None:
                outputs[match["backfill_id"]][int(match["batch"])].append(stored)
            elif match is not None and stored.modified < self.cutoff:
                trials.append(stored)
        found = [self._leftover(trials, Reason.OLD)] if trials else []
        notes = []
        for backfill_id, batches in outputs.items():
            checkpoint = self.checkpoint if backfill_id is None else self.checkpoint.backfill(backfill_id)
            root = self.store if backfill_id is None else self.store.child(f"_backfills/{backfill_id}")
            if not _is_claimed_by(checkpoint, root):
                notes.append(f"{root.url} is not claimed by the checkpoint {checkpoint.url}: its files are left alone")
                continue
            states, sink = BatchStates.of(checkpoint), ChangeFiles(root)
            judge = partial(self._judge, backfill_id, states, sink)
            for leftover, note in map_parallel(judge, sorted(batches.items()), at_once=root.requests_at_once):
                found.extend(filter(None, [leftover]))
                notes.extend(filter(None, [note]))
        return found, notes

    def _judge(
        self,
        backfill_id: str | None,
        states: BatchStates,
        sink: ChangeFiles,
        batch: tuple[int, Sequence[StoredObject]],
    ) -> tuple[Leftover | None, str | None]:
        """The files that may go, and a note about files that stay although nobody names them."""
        number, files = batch
        state = states.state(number)
        has_manifest = any(each.key.endswith(f"/{MANIFEST}") for each in files)
        if state is BatchState.ENDED and not has_manifest:
            # It may have ended after the listing. Of a batch that has ended, no run makes a manifest any more.
            has_manifest = sink.whole(number) is not None
        if state is BatchState.ENDED and has_manifest:
            try:
                named = {MANIFEST, *sink.manifest(number).names}
            except KeyMissingError:
                if not self.is_passed:
                    raise
                # A cleanup deletes the batch at this moment.
                return None, None
            strays = [each for each in files if each.key.rpartition("/")[2] not in named]
            return (self._leftover(strays, Reason.UNNAMED, backfill_id, number) if strays else None), None
        old = [each for each in files if each.modified < self.cutoff]
        if state is BatchState.ENDED and self.is_passed:
            # A cleanup deletes the manifest first. A late task may write next to nothing, too.
            return (self._leftover(old, Reason.UNNAMED, backfill_id, number) if old else None), None
        if state is BatchState.ENDED:
            return None, f"batch {number} at {self.store.url} has ended, but has no manifest: its files are left alone"
        if state is BatchState.OPEN or has_manifest or not old:
            return None, None
        is_opened = partial(states.is_opened_now, number)
        return self._leftover(old, Reason.OLD, backfill_id, number, is_opened=is_opened), None

    def _leftover(
        self,
        files: Sequence[StoredObject],
        reason: Reason,
        backfill_id: str | None = None,
        batch_number: int | None = None,
        *,
        is_opened: Callable[[], bool] | None = None,
    ) -> Leftover:
        return Leftover(
            store=self.store,
            pipeline=self.pipeline,
            backfill_id=backfill_id,
            batch_number=batch_number,
            reason=reason,
            objects=len(files),
            size_bytes=sum(each.size_bytes for each in files),
            keys=tuple(each.key for each in files),
            is_opened=is_opened,
        )


def _is_claimed_by(checkpoint: Checkpoint, path: Store) -> bool:
    """Files of another checkpoint must not be judged by this one."""
    claim, owner = load_claim(path), checkpoint.owner()
    return claim is not None and owner is not None and claim.owner == owner.checkpoint_id
