"""Branches and tags that keep snapshots until a pipeline has delivered them."""

import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import ManageSnapshots

from icefloe.errors import TerminalError, TransientError
from icefloe.iceberg.catalog.catalog_errors import catalog_errors
from icefloe.iceberg.history.history import MAIN, History
from icefloe.iceberg.step import ancestry
from icefloe.iceberg.table import table_name
from icefloe.patience import Patience

__all__ = ["PipelinePins"]

logger = logging.getLogger(__name__)

EVER_MS: Final = 2**63 - 1
"""Age that no branch or tag reaches, whatever the table's properties say."""
_PAUSES_SECONDS: Final = (0.1, 0.2, 0.4, 0.8, 1.6)


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededSnapshots:
    """The snapshots that a pipeline still needs."""

    head_id: int | None = None  # None if the branch has no snapshot
    lineage: tuple[int, ...] = ()  # from the head back to where the pipeline goes on, newest first
    further: tuple[int, ...] = ()  # others, such as a state that the branch was rolled back from

    @classmethod
    def of(
        cls,
        history: History,
        branch: str,
        *,
        since_id: int | None,  # delivered; its files show what later deletes removed. None: from the start
        further: Iterable[int] = (),
        pinned_end_id: int | None = None,  # the last snapshot to which the pins lead; None: nowhere
    ) -> Self:
        """The snapshots from a pipeline's place, inclusive, to its branch's head; none if there is a gap."""
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
                # A pipeline that cannot go on must not hold up expiry for ever.
                return cls()
            if pinned_end_id is not None:
                # A gap, or a table that was replaced: only its manifests would tell. So both ways are held.
                further = (*further, *lineage)
                head_id, (lineage, _) = pinned_end_id, _way_back(history, pinned_end_id, since_id, over=landings)
        known = {each for each in (since_id, *further) if each is not None and each in history.snapshots}
        return cls(head_id=head_id, lineage=tuple(lineage), further=tuple(sorted(known - {*lineage})))


def _way_back(history: History, head_id: int, since_id: int | None, *, over: Collection[int]) -> tuple[list[int], bool]:
    """Newest first, and whether they reach the other (None: the start)."""
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
    """Since the branch last left a snapshot, as far as the metadata says."""
    moves = [move.snapshot_id for move in history.log] if branch == MAIN else []
    if since_id not in moves:
        return ()
    return moves[len(moves) - moves[::-1].index(since_id) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinePins:
    """The branch and the tags of one pipeline, as a table has them.

    Attributes:
        branch: its name, with which the names of the tags begin.
        tagged: snapshot ids by tag.
    """

    branch: str
    branch_head_id: int | None = None
    kept_snapshots: int = 0
    tagged: Mapping[str, int]

    @staticmethod
    def branch_of(pipeline: str, checkpoint_id: str) -> str:
        """The name of a pipeline's branch. Pipelines of the same name have checkpoints with other ids.

        >>> PipelinePins.branch_of("flights", "0123456789abcdef")
        'icefloe_flights_01234567'
        """
        return f"icefloe_{pipeline}_{checkpoint_id[:8]}"

    @classmethod
    def of(cls, history: History, branch: str) -> Self:
        """The ones in a table's metadata, by the name of the branch."""
        ref = history.refs.get(branch)
        own = re.compile(re.escape(branch) + "_[0-9]+")
        tagged = {name: each.snapshot_id for name, each in history.refs.items() if own.fullmatch(name)}
        return cls(
            branch=branch,
            branch_head_id=None if ref is None else ref.snapshot_id,
            kept_snapshots=0 if ref is None else ref.min_snapshots_to_keep or 1,
            tagged=tagged,
        )

    @classmethod
    def find(cls, history: History, pipeline: str, checkpoint_id: str | None) -> Self | None:
        """The ones of a pipeline; None if there are none. Before its first batch it has no checkpoint."""
        return None if checkpoint_id is None else cls.of(history, cls.branch_of(pipeline, checkpoint_id)) or None

    @staticmethod
    def may_exist(history: History, pipeline: str) -> bool:
        """True if there are pins of a pipeline of that name, perhaps of another one."""
        return any(name.startswith(f"icefloe_{pipeline}_") for name in history.refs)

    def __bool__(self) -> bool:
        return self.branch_head_id is not None or bool(self.tagged)

    def tag(self, snapshot_id: int) -> str:
        """The tag of a snapshot."""
        return f"{self.branch}_{snapshot_id}"

    def end_after(self, snapshot_id: int, history: History) -> int | None:
        """The last snapshot to which these lead from the delivered one; None: no further."""
        end_id = self.branch_head_id
        if end_id is None or end_id == snapshot_id:
            return None
        # The pins may be older than the cursor, if a run was killed before it moved them. A tag tells them apart: the
        # last move left tags only on what was not delivered then. It also covers a cursor that a rollback left behind.
        is_ahead = snapshot_id in self.tagged.values() or history.is_ancestor(snapshot_id, end_id)
        return end_id if is_ahead else None

    def move(self, table: Table, *, of_branch: str, since_id: int | None, further: Iterable[int] = ()) -> Self:
        """Keeps the snapshots that a pipeline needs, in at most one commit; returns what is kept.

        Spark's ``expire_snapshots`` keeps ancestors of a branch, PyIceberg's only snapshots that a branch or tag points
        to. So there are both, and neither expires by its age.

        Args:
            of_branch: the pipeline's own.
            since_id: delivered; None: from the start of the history.
        """

        def change(loaded: Table) -> ManageSnapshots | None:
            history = History.of(loaded)
            found = self.of(history, self.branch)
            pinned_end_id = None if since_id is None else found.end_after(since_id, history)
            held = NeededSnapshots.of(
                history, of_branch, since_id=since_id, further=further, pinned_end_id=pinned_end_id
            )
            return pin_moves(found, held, loaded.manage_snapshots())

        return self.of(History.of(commit_refs(table, change)), self.branch)

    def drop(self, table: Table) -> None:
        """Drops the branch and tags in one commit; raises as `move`."""

        def change(loaded: Table) -> ManageSnapshots | None:
            found = self.of(History.of(loaded), self.branch)
            managed = loaded.manage_snapshots()
            if found.branch_head_id is not None:
                managed.remove_branch(self.branch)
            for name in sorted(found.tagged):
                managed.remove_tag(name)
            return managed if found else None

        commit_refs(table, change)


def pin_moves(found: PipelinePins, held: NeededSnapshots, managed: ManageSnapshots) -> ManageSnapshots | None:
    """Sets what keeps the snapshots a pipeline needs; None if they are kept already."""
    if held.head_id is None:
        return None
    wanted = {found.tag(snapshot_id): snapshot_id for snapshot_id in (*held.lineage, *held.further)}
    new_tags = {name: snapshot_id for name, snapshot_id in wanted.items() if found.tagged.get(name) != snapshot_id}
    has_branch = found.branch_head_id == held.head_id and found.kept_snapshots >= len(held.lineage)
    # Each commit takes a place in the table's metadata log, which icefloe reads: old tags go only with the next move.
    if has_branch and not new_tags:
        return None
    managed.create_branch(held.head_id, found.branch, max_ref_age_ms=EVER_MS, min_snapshots_to_keep=len(held.lineage))
    for name, snapshot_id in new_tags.items():
        managed.create_tag(snapshot_id, name, max_ref_age_ms=EVER_MS)
    for name in sorted(found.tagged.keys() - wanted.keys()):
        managed.remove_tag(name)
    return managed


def commit_refs(table: Table, change: Callable[[Table], ManageSnapshots | None]) -> Table:
    """Changes branches and tags in one commit; returns the table after it. After a conflict ``change`` runs again."""
    name, catalog = table_name(table), table.catalog
    patience = Patience.of(os.environ, place=f"catalog {catalog.name!r}: branches of {name}")

    def commit_once() -> Table | None:
        # Loaded by the catalog itself: a table of `load_table` opens files in few places, and writes none.
        loaded = catalog.load_table(table.name())
        changed = change(loaded)
        try:
            if changed is not None:
                changed.commit()
        except (CommitFailedException, CommitStateUnknownException) as cause:
            logger.info("branches and tags of table %s are not set yet: %s", name, type(cause).__name__)
            return None
        except PermissionError as cause:
            raise TerminalError(f"the metadata folder of table {name} may not be written") from cause
        except NotImplementedError as cause:
            raise TerminalError(f"catalog {catalog.name!r} takes no commits") from cause
        return loaded

    for pause_seconds in (0.0, *_PAUSES_SECONDS):
        time.sleep(pause_seconds)
        try:
            with catalog_errors(catalog.name, f"set branches and tags of table {name}"):
                committed = patience.wait_for(commit_once, "commit")
        except TerminalError as cause:
            raise TerminalError(
                f"{cause.sentence}; pin: true needs the right to commit to table {name}: to update it in catalog "
                f"{catalog.name!r}, and if that is no REST catalog, to write its metadata folder; grant it, or remove "
                "pin"
            ) from cause
        if committed is not None:
            return committed
    raise TransientError(
        f"other commits to table {name} came first {len(_PAUSES_SECONDS) + 1} times in a row, so that its snapshots "
        "could not be pinned; try again"
    )
