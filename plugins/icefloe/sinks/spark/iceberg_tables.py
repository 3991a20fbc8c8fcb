"""Iceberg tables that Spark writes on a branch, each batch exactly once."""

from typing import Final

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.iceberg.branch_sink import BranchSink, StatementBranch, WritableBranch
from icefloe.sinks.iceberg.target import TargetTable
from icefloe.sinks.spark.changes_view import ChangesView, sql_name

_SUMMARY: Final = "spark.sql.iceberg.snapshot-property."


class SparkBranch(BranchSink):
    """A branch that Spark writes.

    Args:
        name: of the table, as Spark's SQL calls it.
    """

    def __init__(self, target: TargetTable, name: str) -> None:
        super().__init__(target)
        self._name = name

    def _write(self, branch: WritableBranch, batch: ProvenBatch, part: StagedPart) -> None:
        conf = {f"{_SUMMARY}{key}": value for key, value in branch.trace.items()}
        view, table = ChangesView.open(batch, part, conf=conf), sql_name(*self._name.split("."))
        query = f"SELECT snapshot_id FROM {table}.refs WHERE name = '{branch.name}'"  # noqa: S608 - names of ours
        if [row.snapshot_id for row in view.rows(query, doing=f"find {self._name}")] != [branch.begin]:
            raise TerminalError(
                f"{self._name} is another table in Spark than {self.url}: correct sink.catalog, or the catalog "
                f"{self._name.split('.')[0]} in spark.conf",
                key="sink.table",
            )
        target = f"{table}.{sql_name(f'branch_{branch.name}')}"
        if branch.is_emptied:
            view.run(f"DELETE FROM {target}", doing=f"empty {self.url}")  # noqa: S608 - a quoted name
        if part.rows:
            self._bring(view, target, branch, batch)

    def _bring(self, view: ChangesView, target: str, branch: WritableBranch, batch: ProvenBatch) -> None:
        """Bring the changes of the view to the target, in one statement."""
        raise NotImplementedError


class StatementSink(SparkBranch, StatementBranch):
    """Runs a statement of the user's own."""

    def __init__(self, target: TargetTable, name: str, statement: str) -> None:
        super().__init__(target, name)
        self._statement = statement

    def _bring(self, view: ChangesView, target: str, branch: WritableBranch, batch: ProvenBatch) -> None:  # noqa: ARG002
        view.run(self._statement.replace("{target}", target), doing="run sink.statement")
