"""Manifests that contradict themselves: the changes are the difference of the states that PyIceberg's scan gives."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile, ManifestEntryStatus, ManifestFile

from icefloe.api import read_changes
from icefloe.errors import TerminalError
from support.tables.hand_made import Entry, HandMadeTable

ADDED, EXISTING, DELETED = ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED
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


OLD, NEW = range(2), range(2, 4)
"""The rows of a file before and of one that is written now."""


def one_file(folder: Path) -> tuple[HandMadeTable, DataFile, DataFile, ManifestFile]:
    """A table of one file, that file, one that is written but not committed, and the manifest."""
    table = HandMadeTable(folder)
    old, new = table.rows(*OLD), table.rows(*NEW)
    manifest = table.manifest(FIRST, [Entry(old)])
    table.commit(FIRST, [manifest])
    return table, old, new, manifest


@pytest.mark.parametrize("is_fused", [False, True])
@pytest.mark.parametrize(
    ("keeps", "entries"),
    [
        (1, [("new", ADDED, FOREIGN, None)]),
        (0, [("old", ADDED, 0, None), ("new", ADDED, 0, None)]),
        (0, [("new", ADDED, 0, None)]),
        (0, [("old", EXISTING, FIRST, 1), ("new", EXISTING, FIRST, 1)]),
        (0, [("new", EXISTING, FIRST, 1)]),
        (0, [("new", EXISTING, 0, 2)]),
        (1, [("old", DELETED, 0, 1), ("new", ADDED, 0, None)]),
        (0, [("new", DELETED, 0, 1)]),
        (1, [("old", ADDED, 0, None)]),
        (1, [("new", ADDED, 0, None), ("new", EXISTING, FIRST, 1)]),
        (2, [("new", ADDED, 0, None)]),
        (0, [("old", EXISTING, FIRST, 1), ("old", DELETED, 0, 1)]),
    ],
    ids=[
        "added under another id",
        "an old file added again",
        "an old file dropped",
        "a new file existing",
        "a new file existing in place of a dropped one",
        "a new file existing under its own id",
        "deleted beside live",
        "a file deleted that was never there",
        "a live file added again",
        "a new file listed twice",
        "a manifest listed twice",
        "existing and deleted",
    ],
)
def test_states_decide_what_a_commit_changed(
    tmp_path: Path, keeps: int, entries: list[tuple[str, ManifestEntryStatus, int, int | None]], is_fused: bool
) -> None:
    table, old, new, manifest = one_file(tmp_path)
    files = {"old": old, "new": new}
    written = [Entry(files[name], status, id_ or None, number) for name, status, id_, number in entries]
    listed = [manifest] * keeps + [table.manifest(FIRST + 1, written)]
    table.commit(FIRST + 1, listed, is_last=not is_fused)
    # A right commit after it: a later step must not mend or spoil anything.
    added = table.manifest(FIRST + 2, [Entry(table.rows(7))])
    table.commit(FIRST + 2, [*listed, added])
    ends = [FIRST, FIRST + 2] if is_fused else [FIRST, FIRST + 1, FIRST + 2]
    steps = [difference(table, before, after) for before, after in pairwise(ends)]
    assert changed_rows(table, FIRST) == [each for each in steps if each]


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
