"""The passage of a tag that was moved: a tag names a state of the table, not a history."""

from itertools import takewhile

from icefloe.iceberg.history.history import NotAnAncestorError, is_replace
from icefloe.iceberg.history.landing import Landing
from icefloe.iceberg.history.loaded_table import LoadedTable
from icefloe.iceberg.history.passage import Passage
from icefloe.iceberg.schemas.table_schema import require_comparable_states
from icefloe.pipeline.option_values import RollbackOption

__all__ = ["find_tag_passage"]


def find_tag_passage(
    table: LoadedTable,
    *,
    tag: str,
    after_snapshot_id: int,
    on_rollback: RollbackOption,
) -> Passage:
    """A landing on the state that a tag points to now, from the state that it pointed to.

    Commits between the two are left out: readers of the tag never saw their states. There is no landing if the tag was
    not moved. If it was moved over ``replace`` snapshots only, these are the commits.

    Args:
        table: as loaded; only this version of its metadata counts. Earlier ones are read for the time of the move.
        tag: its name.
        after_snapshot_id: the snapshot that it pointed to.
        on_rollback: ``compensate`` if it may have been moved to a snapshot that does not descend from that one.

    Raises:
        UnknownBranchError: there is no such tag.
        ExpiredHistoryError: the snapshot that it pointed to has expired.
        NotAnAncestorError: it was moved back or aside, and ``on_rollback`` is ``fail``.
        TerminalError: it was moved to a state in which the table's columns have other types.
    """
    history = table.history
    tagged = history.head(tag)
    if tagged is None or tagged.snapshot_id == after_snapshot_id:
        return Passage(after_snapshot_id=after_snapshot_id, up_to_snapshot_id=after_snapshot_id)
    lineage = history.lineage(tagged.snapshot_id)
    if after_snapshot_id not in history.snapshots:
        raise history.expired(after_snapshot_id, lineage[-1])
    is_forward = history.is_ancestor(after_snapshot_id, tagged.snapshot_id)
    if on_rollback == "fail" and not is_forward:
        raise NotAnAncestorError(
            f"snapshot {abs(after_snapshot_id)} is not an ancestor of snapshot {tagged.snapshot_id}, to which the tag "
            f"{tag!r} of table {table.name} was moved, and on_rollback is fail",
            table=table.name, after_snapshot_id=after_snapshot_id, up_to_snapshot_id=tagged.snapshot_id,
            branch=tag,
        )  # fmt: skip
    passed = list(takewhile(lambda snapshot: snapshot.snapshot_id != after_snapshot_id, lineage))
    # Compactions are checked by their counts. Comparing the two states would read all files that were replaced.
    if is_forward and all(map(is_replace, passed)):
        return Passage(
            after_snapshot_id=after_snapshot_id,
            up_to_snapshot_id=tagged.snapshot_id,
            before=history.snapshots[after_snapshot_id],
            commits=tuple(reversed(passed)),
        )
    require_comparable_states(table.metadata, after_snapshot_id, tagged.snapshot_id, table=table.name)
    return Passage(
        after_snapshot_id=after_snapshot_id,
        up_to_snapshot_id=tagged.snapshot_id,
        landing=Landing(snapshot=tagged, left_snapshot_id=after_snapshot_id, timestamp_ms=table.log.moved_at_ms(tag)),
    )
