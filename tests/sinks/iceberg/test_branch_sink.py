"""Rows that another engine writes to a branch: here PyIceberg, in place of Spark."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import Table
from pyiceberg.types import StringType

from icefloe.changes.columns import ChangeColumns
from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.iceberg.branch_sink import (
    BranchSink,
    ChangelogBranch,
    MirrorBranch,
    StatementBranch,
    WritableBranch,
)
from icefloe.sinks.iceberg.table_sink import TableSink
from icefloe.sinks.iceberg.target import TOKEN
from icefloe.testing.processes import DeliveringProcess
from icefloe.testing.staged_history import ORIGIN, OTHER, StagedHistory
from sinks.iceberg.lakes import Lake
from sinks.iceberg.test_conformance import OverSqlite


class ByPyIceberg(BranchSink):
    """Writes the branch as another engine does, without a look at main."""

    def _write(self, branch: WritableBranch, batch: ProvenBatch, part: StagedPart) -> None:
        table = self._target.load()
        try:
            if branch.is_emptied:
                table.delete(branch=branch.name, snapshot_properties=dict(branch.trace))
            self._bring(self._target.load(), branch, batch, part)
        except (CommitFailedException, KeyError) as cause:
            raise TerminalError("the branch is gone") from cause

    def _append_nothing(self, branch: str | None, trace: Mapping[str, str]) -> None:
        raise NotImplementedError

    def _bring(self, table: Table, branch: WritableBranch, batch: ProvenBatch, part: StagedPart) -> None:
        raise NotImplementedError


class Mirrored(ByPyIceberg, MirrorBranch):
    def _bring(self, table: Table, branch: WritableBranch, batch: ProvenBatch, part: StagedPart) -> None:
        schema, shown = table.schema().as_arrow(), batch.shown_schema.names
        found = rows_now(table, table.metadata.refs[branch.name].snapshot_id)
        key = batch.identity if set(batch.identity) <= set(shown) else shown
        missing = [name for name in schema.names if name not in found.column_names]
        rows = [{**row, **dict.fromkeys(missing)} for row in found.to_pylist()]
        for change in sorted((row for read in part.read() for row in read.to_pylist()), key=in_order):
            row = {**dict.fromkeys(schema.names), **{name: change[name] for name in shown}}
            if change[ChangeColumns.TYPE] in ("INSERT", "UPDATE_AFTER"):
                rows.append(row)
            else:
                rows.remove(next(each for each in rows if all(each[name] == row[name] for name in key)))
        table.overwrite(pa.Table.from_pylist(rows, schema), branch=branch.name, snapshot_properties=dict(branch.trace))


def rows_now(table: Table, snapshot_id: int) -> pa.Table:
    """The rows of a snapshot, in the columns that the table has now."""
    files = table.scan(snapshot_id=snapshot_id).plan_files()
    return ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table(files)


def in_order(change: dict[str, Any]) -> tuple[int, bool]:
    return change[ChangeColumns.ORDINAL], change[ChangeColumns.TYPE] in ("INSERT", "UPDATE_AFTER")


class Appended(ByPyIceberg, ChangelogBranch):
    def _bring(self, table: Table, branch: WritableBranch, batch: ProvenBatch, part: StagedPart) -> None:  # noqa: ARG002
        schema = table.schema().as_arrow()
        rows = [row for read in part.read() for row in read.to_pylist()]
        table.append(pa.Table.from_pylist(rows, schema), branch=branch.name, snapshot_properties=dict(branch.trace))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "lake")
    lake.kind = Mirrored
    return lake


def ids(lake: Lake) -> set[int]:
    return set(lake.table.scan().to_arrow()["id"].to_pylist())


def head(lake: Lake) -> int:
    return lake.table.metadata.refs["main"].snapshot_id


def test_main_moves_to_what_the_engine_wrote_and_no_branch_stays(lake: Lake) -> None:
    history = StagedHistory()
    lake.deliver(*history.load({1: {"word": "a"}, 2: {"word": "b"}}, batches=2))
    assert ids(lake) == {1, 2}
    before = head(lake)
    lake.deliver(history.change())
    assert head(lake) != before
    lake.deliver(history.change({1: None, 3: {"word": "c"}}))
    assert (ids(lake), set(lake.table.metadata.refs)) == ({2, 3}, {"main"})


def test_a_load_is_aside_until_its_last_batch(lake: Lake) -> None:
    history = StagedHistory()
    lake.deliver(*history.load({1: {"word": "a"}}))
    first, last = history.load({2: {"word": "b"}, 3: {"word": "c"}}, batches=2)
    lake.deliver(first)
    assert ids(lake) == {1}
    lake.deliver(last)
    assert ids(lake) == {2, 3}


def test_a_foreign_commit_makes_the_engine_write_again_on_the_new_head(lake: Lake) -> None:
    history = StagedHistory()
    lake.deliver(*history.load({1: {"word": "a"}}))
    made = []

    class Late(Mirrored):
        def _write(self, branch: WritableBranch, batch: ProvenBatch, part: StagedPart) -> None:
            super()._write(branch, batch, part)
            if not made:
                lake.table.append(pa.Table.from_pylist([{"id": 77}], lake.table.schema().as_arrow()))
            made.append(branch.begin)

    lake.kind = Late
    lake.deliver(history.change({2: {"word": "b"}}))
    assert (ids(lake), len(set(made))) == ({1, 2, 77}, 2)


def test_a_main_that_was_rolled_back_meanwhile_stays(lake: Lake) -> None:
    history = StagedHistory()
    lake.deliver(*history.load({1: {"word": "a"}}))
    before = head(lake)
    lake.deliver(history.change({2: {"word": "b"}}))

    class Late(Mirrored):
        def _write(self, branch: WritableBranch, batch: ProvenBatch, part: StagedPart) -> None:
            super()._write(branch, batch, part)
            lake.table.manage_snapshots().rollback_to_snapshot(before).commit()

    lake.kind = Late
    with pytest.raises(TerminalError, match="was rolled back"):
        lake.deliver(history.change({3: {"word": "c"}}))
    assert ids(lake) == {1}


def test_a_publication_whose_reply_is_lost_is_found_by_its_token(lake: Lake) -> None:
    history = StagedHistory()
    lake.deliver(*history.load({1: {"word": "a"}}))

    def lose() -> None:
        raise ConnectionError("reset by peer")

    class Lost(Mirrored):
        def _write(self, branch: WritableBranch, batch: ProvenBatch, part: StagedPart) -> None:
            super()._write(branch, batch, part)
            lake.after.append(lose)

    lake.kind = Lost
    lake.deliver(history.change({2: {"word": "b"}}))
    assert ids(lake) == {1, 2}


def test_the_branch_of_a_killed_try_is_removed_when_the_next_batch_begins(lake: Lake) -> None:
    history = StagedHistory()
    lake.deliver(*history.load({1: {"word": "a"}}))
    lake.table.manage_snapshots().create_branch(head(lake), "icefloe_written_1_killed").commit()
    lake.deliver(history.change({2: {"word": "b"}}))
    assert set(lake.table.metadata.refs) == {"main"}


def test_rows_of_nobody_leave_with_the_first_batch_of_who_takes_them_over(lake: Lake) -> None:
    lake.kind = Appended
    lake.deliver(*StagedHistory().load({1: {"word": "old"}}))
    with lake.table.transaction() as transaction:
        transaction.remove_properties(TOKEN)
    history = StagedHistory(origin=OTHER)
    process = DeliveringProcess(lambda _calls: lake.sink())
    process.claim(OTHER, takes_over=True)
    process.run(*history.load({2: {"word": "new"}}))
    process.run(history.change({3: {"word": "more"}}))
    assert ids(lake) == {2, 3}


def test_columns_of_a_killed_try_are_known_and_those_of_somebody_else_are_not(lake: Lake) -> None:
    history = StagedHistory()
    lake.deliver(*history.load({1: {"word": "a"}}))

    class Killed(Mirrored):
        def _write(self, *_: object) -> None:
            raise InterruptedError

    lake.kind = Killed
    history.evolve(history.schema.append(pa.field("ours", pa.string())))
    staged = history.change({2: {"word": "b", "number": 2, "ours": "x"}})
    with pytest.raises(InterruptedError):
        lake.deliver(staged)
    lake.kind = Mirrored
    lake.deliver(staged)
    assert (ids(lake), set(lake.table.metadata.refs)) == ({1, 2}, {"main"})
    with lake.table.update_schema() as update:
        update.add_column("theirs", StringType())
    history.evolve(history.schema.append(pa.field("theirs", pa.string())))
    with pytest.raises(TerminalError, match="column theirs is there, and no batch has filled it"):
        lake.deliver(history.change({3: {"word": "c", "number": 3, "ours": "x", "theirs": "y"}}))


def test_a_foreign_commit_before_a_column_gets_its_new_name_costs_a_try(lake: Lake) -> None:
    history = StagedHistory()
    lake.deliver(*history.load({1: {"word": "a"}}))
    renamed = [column.with_name(column.name.replace("word", "phrase")) for column in history.schema]
    history.evolve(pa.schema(renamed), renamed={"phrase": "word"})
    foreign = pa.Table.from_pylist([{"id": 77}], lake.table.schema().as_arrow())
    lake.between.append(lambda: lake.table.append(foreign))
    lake.deliver(history.change({2: {"phrase": "b", "number": 2}}))
    rows = lake.table.scan().to_arrow().to_pylist()
    assert {row["id"]: row["phrase"] for row in rows} == {1: "a", 2: "b", 77: None}


class Stated(ByPyIceberg, StatementBranch):
    pass


def test_the_table_of_a_statement_is_not_made(lake: Lake) -> None:
    lake.kind = Stated
    for look in (lake.sink().check, partial(lake.sink().claim, ORIGIN)):
        with pytest.raises(TerminalError, match=r"changes\.flights is missing: create it with the columns"):
            look()


@pytest.mark.slow
@pytest.mark.extended
class TestMirrorOnBranch(OverSqlite):
    kind: ClassVar[type[TableSink]] = Mirrored
    step = 3


@pytest.mark.slow
@pytest.mark.extended
class TestChangelogOnBranch(OverSqlite):
    kind: ClassVar[type[TableSink]] = Appended
    step = 3
