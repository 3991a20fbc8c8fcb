"""Iceberg tables that Spark writes on a branch, each batch exactly once."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

import pyarrow as pa

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.iceberg.branch_sink import BranchSink, ChangelogBranch, MirrorBranch, StatementBranch, WritableBranch
from icefloe.sinks.iceberg.target import TargetTable
from icefloe.sinks.spark.changes_view import (
    VIEW,
    ChangesView,
    new_session,
    refuse_times,
    refuse_types,
    refuse_without_spark,
    sql_name,
)
from icefloe.sinks.spark.net_merge import NetMerge
from icefloe.sinks.spark.proven_merge import merge_changes, refuse_hidden_key

_SUMMARY: Final = "spark.sql.iceberg.snapshot-property."


class SparkBranch(BranchSink):
    """A branch that Spark writes.

    Args:
        name: of the table, as Spark's SQL calls it.
    """

    needs_spark: ClassVar[bool] = True

    def __init__(self, target: TargetTable, name: str) -> None:
        super().__init__(target)
        self._name = name
        self._table = sql_name(*name.split("."))

    def begin(self, batch: ProvenBatch) -> Mapping[str, object]:
        """The same, in a Spark application."""
        refuse_without_spark()
        refuse_times(batch)
        return super().begin(batch)

    def _write(self, branch: WritableBranch, batch: ProvenBatch, part: StagedPart) -> None:
        view = ChangesView.open(batch, part, conf=_summary(branch.trace))
        query = f"SELECT snapshot_id FROM {self._table}.refs WHERE name = '{branch.name}'"  # noqa: S608 - names of ours
        self._refuse_another(view, query, branch.begin)
        target = self._as_branch(branch.name)
        if branch.is_emptied:
            view.run(f"DELETE FROM {target}", doing=f"empty {self.url}")  # noqa: S608 - a quoted name
        if part.rows:
            self._bring(view, target, branch, batch)

    def _append_nothing(self, branch: str | None, trace: Mapping[str, str]) -> None:
        view = ChangesView(new_session(_summary(trace)))
        target = self._table if branch is None else self._as_branch(branch)
        if branch is None:
            known = self._target.load().metadata_location
            self._refuse_another(view, f"SELECT file FROM {self._table}.metadata_log_entries", known)  # noqa: S608
        view.run(f"INSERT INTO {target} SELECT * FROM {target} WHERE false", doing=f"append to {self.url}")  # noqa: S608

    def _refuse_another(self, view: ChangesView, query: str, expected: object) -> None:
        if expected not in [row[0] for row in view.rows(query, doing=f"find {self._name}")]:
            raise TerminalError(
                f"{self._name} is another table in Spark than {self.url}: correct sink.catalog, or the catalog "
                f"{self._name.split('.')[0]} in spark.conf",
                key="sink.table",
            )

    def _as_branch(self, name: str) -> str:
        return f"{self._table}.{sql_name(f'branch_{name}')}"

    def _bring(self, view: ChangesView, target: str, branch: WritableBranch, batch: ProvenBatch) -> None:
        """Bring the changes of the view to the target, in one statement."""
        raise NotImplementedError


def _summary(trace: Mapping[str, str]) -> dict[str, str]:
    return {f"{_SUMMARY}{key}": value for key, value in trace.items()}


class StatementSink(SparkBranch, StatementBranch):
    """Runs a statement of the user's own."""

    def __init__(self, target: TargetTable, name: str, statement: str) -> None:
        super().__init__(target, name)
        self._statement = statement

    def _bring(self, view: ChangesView, target: str, branch: WritableBranch, batch: ProvenBatch) -> None:  # noqa: ARG002
        view.run(self._statement.replace("{target}", target), doing="run sink.statement")


class AppendSink(SparkBranch, ChangelogBranch):
    """Appends all changes as rows."""

    def _bring(self, view: ChangesView, target: str, branch: WritableBranch, batch: ProvenBatch) -> None:  # noqa: ARG002
        view.complete_structs(target)
        names = ", ".join(sql_name(name) for name in self._columns(batch).names)
        view.run(f"INSERT INTO {target} BY NAME SELECT {names} FROM {VIEW}", doing=f"append to {self.url}")  # noqa: S608


class MergeSink(SparkBranch, MirrorBranch):
    """Keeps the table equal to the source, by one MERGE that is proven to fit before it is published."""

    def _refuse_batch(self, batch: ProvenBatch) -> None:
        super()._refuse_batch(batch)
        if self.takes_whole_rows:
            refuse_types(batch, pa.types.is_map, "map, or holds one, and Spark compares no maps as parts of whole rows")
        else:
            refuse_hidden_key(batch, place=self.url)

    def _bring(self, view: ChangesView, target: str, branch: WritableBranch, batch: ProvenBatch) -> None:
        view.complete_structs(target)
        merge = NetMerge.of(batch, batch.shown_schema.names if self.takes_whole_rows else branch.bounded)
        if self.takes_whole_rows:
            merge = replace(merge, keys=())
        merge_changes(view, merge, batch, target=target, columns=branch.columns, place=self.url)
