"""One MERGE, run after it is proven to fit the table."""

from collections.abc import Sequence
from typing import Final

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch, column_paths
from icefloe.sinks.spark.changes_view import ChangesView
from icefloe.sinks.spark.net_merge import GONE, NET, NetMerge

_SHOWN_CHARACTERS: Final = 100


def refuse_hidden_key(batch: ProvenBatch, *, place: str) -> None:
    """Raise if the table would lack a part of the key."""
    if not batch.identity:
        raise TerminalError(
            f"{place} is merged by key, and table {batch.origin.table} has no identifier columns; set "
            "identifier_columns in the pipeline"
        )
    names = {".".join(path) for path in column_paths(batch.shown_schema)}
    if hidden := sorted({*batch.identity} - names):
        raise TerminalError(
            f"{place} is merged by key, and columns leaves out {hidden[0]}, which is part of it; add it there",
            key="columns",
        )


def merge_changes(
    view: ChangesView,
    merge: NetMerge,
    batch: ProvenBatch,
    *,
    target: str,
    columns: Sequence[str],
    place: str,
    loads_by_merge: bool = False,
) -> None:
    """Bring the net effect of a batch to a table.

    Args:
        target: the table as SQL has it.
        columns: names of its columns.
        loads_by_merge: True if INSERT takes the fields of structs by position.

    Raises:
        TerminalError: keys are null or have several rows, or the table has drifted from the source.
    """
    if merge.keys:
        _refuse_key(view, merge.null_key, batch, "has a row whose key is null", place)
    if batch.is_load:
        view.run(merge.load(target) if loads_by_merge else merge.insert(target), doing=f"load {place}")
        return
    net = merge.net if merge.keys else merge.whole_rows(batch.shown_schema)
    view.keep(net, NET)
    if merge.keys:
        _refuse_key(view, merge.crowded_key, batch, "gives several rows to a key", place)
    within = []
    for column in merge.kinds:
        [extent] = view.rows(merge.extent(column))
        within.append(merge.within(column, extent, [tuple(gap) for gap in view.rows(merge.gaps(column))]))
    if not merge.keys:
        gone = merge.removed_rows(target, within, batch.shown_schema)
        view.keep(gone, GONE)
        [(expected, found)] = view.rows(merge.removed_counts, doing=f"look for the removed rows of {place}")
        if expected != found:
            raise _drifted(batch, place, f"removes {expected} rows, and {found} of them are there")
        view.run(merge.merge_rows(target, within), doing=f"merge into {place}")
        return
    # With the same conditions as the MERGE: rows that they wrongly rule out are not found here.
    for row in view.rows(merge.drifted_key(target, within), doing=f"look for the changed rows of {place}"):
        raise _drifted(batch, place, f"expects another number of rows of the key {_shown(row)}")
    view.run(merge.merge(target, within, columns), doing=f"merge into {place}")


def _drifted(batch: ProvenBatch, place: str, found: str) -> TerminalError:
    return TerminalError(
        f"{place} has drifted from table {batch.origin.table}: batch {batch.batch_number} {found}: something else "
        f"writes to it; stop that, then run `icefloe reset {batch.origin.pipeline}`, which loads the table again"
    )


def _refuse_key(view: ChangesView, query: str, batch: ProvenBatch, fault: str, place: str) -> None:
    for row in view.rows(query):
        raise TerminalError(
            f"batch {batch.batch_number} {fault}, {_shown(row)}, and {place} has one row of each key: correct "
            f"identifier_columns, or filter such rows out; then run `icefloe reset {batch.origin.pipeline}`"
        )


def _shown(row: Sequence[object]) -> str:
    return ", ".join(map(str, row))[:_SHOWN_CHARACTERS]
