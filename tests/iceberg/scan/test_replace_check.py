from dataclasses import replace

import pytest

from iceberg.scan.fake_manifests import ADDED, DELETED, EXISTING, FakeReader, data, delete, step
from icefloe.errors import TerminalError
from icefloe.iceberg.manifests.manifest_reader import DataEntry, DeleteEntry, EntryStatus, ManifestFile
from icefloe.iceberg.scan.compared_states import ListedStates, check_replace
from icefloe.iceberg.step import StepKind

REPLACE = 2
"""The snapshot that says that it changed nothing; 1 is the one before it."""


def rows(path: str, status: EntryStatus, snapshot_id: int, count: int) -> DataEntry:
    """A data file of so many rows."""
    entry = data(path, status, snapshot_id)
    return replace(entry, file=replace(entry.file, record_count=count))


def vector(path: str, status: EntryStatus, snapshot_id: int, *, of: str, count: int) -> DeleteEntry:
    """A deletion vector of so many positions."""
    entry = delete(path, status, snapshot_id, 9, referenced_data_file=of, content_offset=4)
    return replace(entry, file=replace(entry.file, file_format="PUFFIN", record_count=count))


class Tables:
    """Manifests of the two snapshots, listed with the counts that writers give."""

    def __init__(self, *, says_counts: bool = True) -> None:
        self.reader = FakeReader()
        self._says_counts = says_counts

    def manifest(self, path: str, snapshot_id: int, *entries: DataEntry | DeleteEntry) -> ManifestFile:
        written = self.reader.write(path, snapshot_id, *entries)
        if not self._says_counts or written.holds_deletes:
            return written
        counts = {
            status: sum(e.file.record_count for e in entries if isinstance(e, DataEntry) and e.status is status)
            for status in EntryStatus
        }
        return replace(written, added_rows_count=counts[ADDED], existing_rows_count=counts[EXISTING])

    def check(self, before: list[ManifestFile] | None, after: list[ManifestFile]) -> str | None:
        states = {REPLACE: after} if before is None else {1: before, REPLACE: after}
        parents = {} if before is None else {REPLACE: 1}
        return check_replace(step(StepKind.COMMIT, REPLACE), ListedStates(states, parents), self.reader, table="db.t")


@pytest.mark.parametrize("says_counts", [True, False])
@pytest.mark.parametrize("has_parent", [True, False])
def test_as_many_rows_as_before_pass_and_others_are_an_error_with_both(says_counts: bool, has_parent: bool) -> None:
    tables = Tables(says_counts=says_counts)
    before = [tables.manifest("old", 1, rows("a", ADDED, 1, 2), rows("b", ADDED, 1, 3))]
    gone = tables.manifest("gone", 2, rows("a", DELETED, 2, 2), rows("b", DELETED, 2, 3))
    right, wrong = (tables.manifest(f"new {n}", 2, rows("c", ADDED, 2, n)) for n in (5, 4))
    parent = before if has_parent else None
    assert tables.check(parent, [gone, right]) is None
    with pytest.raises(TerminalError, match=r"must keep the 5 rows .*, but there are 4 after it"):
        tables.check(parent, [gone, wrong])


def test_lists_that_count_everything_spare_the_manifests() -> None:
    tables = Tables()
    before = [tables.manifest("old", 1, rows("a", ADDED, 1, 5))]
    assert tables.check(before, [tables.manifest("rewritten", 2, rows("a", EXISTING, 1, 5))]) is None
    assert tables.reader.read == []
    with pytest.raises(TerminalError, match="must keep the 5 rows of the files that it replaced, but there are 0"):
        tables.check(before, [])


@pytest.mark.parametrize(("rewritten", "is_right"), [(7, True), (10, False), (6, False)])
def test_a_deletion_vector_says_how_many_rows_of_its_file_are_live(rewritten: int, is_right: bool) -> None:
    tables = Tables()
    files = tables.manifest("files", 1, rows("a", ADDED, 1, 10), rows("b", ADDED, 1, 5))
    vectors = tables.manifest("vectors", 1, vector("p", ADDED, 1, of="a", count=3))
    after = [
        tables.manifest("gone", 2, rows("a", DELETED, 2, 10), rows("b", EXISTING, 1, 5)),
        tables.manifest("new", 2, rows("c", ADDED, 2, rewritten)),
        tables.manifest("vectors gone", 2, vector("p", DELETED, 2, of="a", count=3)),
    ]
    if is_right:
        assert tables.check([files, vectors], after) is None
    else:
        with pytest.raises(
            TerminalError, match=f"the 7 rows of the files that it replaced, but there are {rewritten} after"
        ):
            tables.check([files, vectors], after)


def test_a_vector_that_outlives_its_file_counts_for_nothing() -> None:
    tables = Tables()
    files = tables.manifest("files", 1, rows("a", ADDED, 1, 10))
    dangling = tables.manifest("vectors", 1, vector("p", ADDED, 1, of="long gone", count=3))
    cleaned = tables.manifest("cleaned", 2, vector("p", DELETED, 2, of="long gone", count=3))
    assert tables.check([files, dangling], [files, cleaned]) is None
    kept = [tables.manifest("gone", 2, rows("a", DELETED, 2, 10)), tables.manifest("new", 2, rows("b", ADDED, 2, 10))]
    assert tables.check([files, dangling], [*kept, dangling]) is None


def test_a_vector_that_a_replace_put_on_a_file_is_an_error_even_where_the_file_stays() -> None:
    tables = Tables()
    files = tables.manifest("files", 1, rows("a", ADDED, 1, 10))
    same = tables.manifest("moved", 2, vector("q", ADDED, 2, of="a", count=3), vector("p", DELETED, 2, of="a", count=3))
    more = tables.manifest("more", 2, vector("q", ADDED, 2, of="a", count=4), vector("p", DELETED, 2, of="a", count=3))
    before = [files, tables.manifest("vectors", 1, vector("p", ADDED, 1, of="a", count=3))]
    assert tables.check(before, [files, same]) is None
    with pytest.raises(
        TerminalError, match="must keep the 7 rows of the files that it replaced, but there are 6 after it"
    ):
        tables.check(before, [files, more])


def test_a_data_file_that_got_lost_on_the_way_is_an_error_whatever_deletes_rows() -> None:
    tables = Tables()
    files = tables.manifest("files", 1, rows("a", ADDED, 1, 10), rows("b", ADDED, 1, 5))
    deletes = tables.manifest("deletes", 1, delete("d", ADDED, 1, 9))
    rewritten = tables.manifest("rewritten", 2, rows("a", EXISTING, 1, 10))
    sentence = "must keep the 5 rows of the files that it replaced, but there are 0 after it"
    with pytest.raises(TerminalError, match=sentence):
        tables.check([files, deletes], [rewritten, deletes])


def test_a_replace_of_files_with_other_delete_files_cannot_be_checked() -> None:
    tables = Tables()
    files = tables.manifest("files", 1, rows("a", ADDED, 1, 10))
    deletes = tables.manifest("deletes", 1, delete("d", ADDED, 1, 9, referenced_data_file="a"))
    gone, new = tables.manifest("gone", 2, rows("a", DELETED, 2, 10)), tables.manifest("new", 2, rows("b", ADDED, 2, 9))
    warning = tables.check([files, deletes], [gone, new, deletes])
    assert warning is not None
    assert "could not be checked that it kept every row: position or equality deletes are in force on" in warning
