"""Manifests that contradict themselves: the changes are the difference of the states that PyIceberg's scan gives."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile, ManifestEntryStatus, ManifestFile

from icefloe.api import read_changes
from icefloe.errors import TerminalError
from support.tables.hand_made import Entry, HandMadeTable

FIRST: Final = 100
FOREIGN: Final = 4711
"""An id that no snapshot has."""


def changed_rows(table: HandMadeTable, after: int, wanted: Sequence[int] | None = None) -> list[Counter[int]]:
    """The rows that each step adds, less those that it removes, by ordinal."""
    rows = f"id in ({', '.join(map(str, wanted))})" if wanted else None
    found: dict[int, Counter[int]] = {}
    for row in read_changes(table.load(), after_snapshot_id=after, filter=rows).read_all().to_pylist():
        weight = 1 if row["_change_type"] == "INSERT" else -1
        found.setdefault(row["_change_ordinal"], Counter())[row["id"]] += weight
    return [Counter({id_: count for id_, count in each.items() if count}) for _, each in sorted(found.items())]


def difference(table: HandMadeTable, before: int, after: int, wanted: Sequence[int] | None = None) -> Counter[int]:
    counts = table.state(after, wanted)
    counts.subtract(table.state(before, wanted))
    return Counter({id_: count for id_, count in counts.items() if count})


class Listed(NamedTuple):
    """A manifest as an example draws it: (file, status, snapshot id, sequence number) of each entry."""

    entries: list[tuple[int, ManifestEntryStatus, int, int]]
    of_deletes: bool
    added_by: int
    is_denied: bool


STATUSES: Final = st.sampled_from(ManifestEntryStatus)
IDS: Final = st.sampled_from([0, 0, FIRST, FOREIGN])
"""An id of 0 is the snapshot's own."""
MANIFESTS: Final = st.builds(
    Listed,
    st.lists(st.tuples(st.integers(0, 3), STATUSES, IDS, st.integers(1, 2)), min_size=1, max_size=4),
    st.sampled_from([False, False, True]),
    IDS,
    st.integers(0, 9).map(lambda number: number == 0),
)
SNAPSHOTS: Final = st.lists(
    st.tuples(st.lists(MANIFESTS, max_size=2), st.lists(st.integers(0, 5), max_size=4)), min_size=1, max_size=3
)
"""Of each snapshot its new manifests, and the numbers of those before that it lists too, perhaps twice."""


def history_of(table: HandMadeTable, drawn: Sequence[tuple[list[Listed], list[int]]]) -> None:
    """Commits FIRST, which is right, then the drawn snapshots FIRST + 1, FIRST + 2, ..."""
    files = [table.rows(2 * number, 2 * number + 1) for number in range(4)]
    deletes = [table.deletes(file, 0) for file in files]

    def entry(pool: list[DataFile], number: int, status: ManifestEntryStatus, snapshot_id: int, sequence: int) -> Entry:
        # PyIceberg lets a delete file that is older than a data file delete from it if it reaches any other file.
        return Entry(pool[number], status, snapshot_id or None, sequence if pool is files else sequence + 2)

    written: list[ManifestFile] = [table.manifest(FIRST, [Entry(file) for file in files[:2]])]
    table.commit(FIRST, written)
    for snapshot_id, (listed, kept) in enumerate(drawn, FIRST + 1):
        new = [
            table.manifest(
                snapshot_id,
                [entry(deletes if each.of_deletes else files, *drawn_entry) for drawn_entry in each.entries],
                added_by=each.added_by or None,
                is_denied=each.is_denied,
            )
            for each in listed
        ]
        table.commit(snapshot_id, [*(written[number] for number in kept if number < len(written)), *new])
        written += new


@given(SNAPSHOTS, st.sampled_from([None, [0, 2, 5]]))
@settings(deadline=None, max_examples=60)
def test_the_changes_are_the_difference_of_the_states_whatever_manifests_say(
    drawn: list[tuple[list[Listed], list[int]]], wanted: list[int] | None
) -> None:
    with TemporaryDirectory() as folder:
        table = HandMadeTable(Path(folder))
        history_of(table, drawn)
        last = FIRST + len(drawn)
        steps = [difference(table, each, each + 1, wanted) for each in range(FIRST, last)]
        try:
            assert changed_rows(table, FIRST, wanted) == [step for step in steps if step]
            table.move(FIRST)
            back = difference(table, last, FIRST, wanted)
            assert changed_rows(table, last, wanted) == ([back] if back else [])
        except TerminalError:
            assert any(each.is_denied for listed, _ in drawn for each in listed)
