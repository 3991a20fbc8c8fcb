"""The snapshots that a pipeline still needs: from the delivered one to the head, and those of its open batch."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Self

from icefloe.iceberg.history.history import MAIN, History
from icefloe.iceberg.table import ancestry


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededSnapshots:
    """The snapshots that a pipeline still needs.

    Attributes:
        head_id: head of the pipeline's branch; None if that has no snapshot.
        lineage: from the head back to where the pipeline goes on, newest first.
        further: snapshots apart from that, such as a state that the branch was rolled back from.
    """

    head_id: int | None = None
    lineage: tuple[int, ...] = ()
    further: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        history: History,
        branch: str,
        *,
        since_id: int | None,
        further: Iterable[int] = (),
        pinned_end_id: int | None = None,
    ) -> Self:
        """The snapshots from the place where a pipeline goes on, that one included, to the head of its branch.

        None of them if there is a gap between the two: a pipeline that cannot go on must not hold up expiry for ever.
        If the place itself is still there, the pipeline goes on as far as its pins lead, so these snapshots count too.

        Args:
            history: of the table.
            branch: the pipeline's.
            since_id: the snapshot that is delivered; its files show what later deletes removed. None: from the start.
            further: snapshots of an open batch.
            pinned_end_id: the last snapshot to which the pipeline's pins lead from there; None: they lead nowhere.

        Raises:
            UnknownBranchError: there is no such branch.
        """
        head = history.head(branch)
        if head is None:
            return cls()
        head_id = head.snapshot_id
        # The branch may have been rolled back to before the newest ancestor that both have, and moved on from there:
        #   cursor 3, moves 3 1 2     a landing on 1, which takes back 2 and 3, then the commit 2
        # If only the metadata files know the moves, an open batch knows where it lands.
        further = [*further]
        landings = {*further, *_moves_since(history, branch, since_id)}
        lineage, is_whole = _way_back(history, head_id, since_id, over=landings)
        if not is_whole and since_id is not None:
            if since_id not in history.snapshots:
                return cls()
            if pinned_end_id is not None:
                # A gap, or a table that was replaced: only its manifests would tell. So both ways are held.
                further = (*further, *lineage)
                head_id, (lineage, _) = pinned_end_id, _way_back(history, pinned_end_id, since_id, over=landings)
        known = {each for each in (since_id, *further) if each is not None and each in history.snapshots}
        return cls(head_id=head_id, lineage=tuple(lineage), further=tuple(sorted(known - {*lineage})))

    @property
    def snapshot_ids(self) -> tuple[int, ...]:
        """All of them."""
        return (*self.lineage, *self.further)


def _way_back(history: History, head_id: int, since_id: int | None, *, over: Collection[int]) -> tuple[list[int], bool]:
    """The snapshots from a head back to another one, newest first, and whether they reach it (None: the start).

    They go back as far as the last of some snapshots that are ancestors of the head.
    """
    # After a rollback the way leads over the newest ancestor that both have.
    delivered = {each.snapshot_id for each in ancestry(history.snapshots, since_id)}
    lineage = history.lineage(head_id)
    reached = (
        number
        for number, snapshot in enumerate(lineage)
        if snapshot.snapshot_id in delivered or (not delivered and snapshot.parent_snapshot_id == since_id)
    )
    last = next(reached, None)
    ids = [snapshot.snapshot_id for snapshot in lineage]
    if last is None:
        return ids, False
    landed = [number for number, each in enumerate(ids) if each in over]
    return ids[: max([last, *landed]) + 1], True


def _moves_since(history: History, branch: str, since_id: int | None) -> Collection[int]:
    """The snapshots to which a branch has moved since it last left one, as far as the table's metadata says."""
    moves = [move.snapshot_id for move in history.log] if branch == MAIN else []
    if since_id not in moves:
        return ()
    return moves[len(moves) - moves[::-1].index(since_id) :]
