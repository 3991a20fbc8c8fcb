"""The checks of a pipeline against its table that need no batch."""

from dataclasses import dataclass

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.identity_policy import choose_identity, has_row_ids
from icefloe.batch.open.unfit_sink import refuse_rows_without_key
from icefloe.batch.rows.row_shape import RowShape
from icefloe.changes.columns import refuse_reserved_columns
from icefloe.checkpoint.identity import Identity
from icefloe.iceberg.history.history import History
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.pipeline.error_lines import with_lines

__all__ = ["TableCheck"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCheck:
    """The table of a pipeline as the pipeline would read it; each method raises if it cannot.

    Attributes:
        session: of the pipeline.
    """

    session: PipelineSession

    def head_snapshot_id(self) -> int | None:
        """The newest snapshot of the branch; None if it has none.

        Raises:
            UnknownBranchError: the table has no such branch.
        """
        newest = History.of(self.session.table).head(self.session.pipeline.branch)
        return None if newest is None else newest.snapshot_id

    def schema(self) -> TableSchema:
        """The schema of the newest snapshot.

        Raises:
            NotBuiltError: this release cannot read one of its columns.
        """
        return TableSchema.at(self.session.table.metadata, self.head_snapshot_id())

    def identity(self) -> Identity:
        """The identity of rows, which the sink accepts.

        Raises:
            TerminalError: a column is missing, or the sink needs columns that identify a row.
        """
        session, pipeline = self.session, self.session.pipeline
        with with_lines(pipeline):
            chosen = choose_identity(
                pipeline.identifier_columns,
                self.schema(),
                table=pipeline.table,
                has_row_ids=has_row_ids(session.table, pipeline.computed_changes),
            )
            refuse_rows_without_key(session, chosen)
            return chosen

    def shape(self) -> RowShape:
        """The selected columns and the filter.

        Raises:
            TerminalError: a column is missing, or the filter does not fit.
        """
        pipeline = self.session.pipeline
        with with_lines(pipeline):
            return RowShape.of(
                self.schema(),
                identity=Identity(policy="none"),
                columns=pipeline.columns,
                filter_text=pipeline.filter,
                filter_as_written=pipeline.as_written.filter,
                table=pipeline.table,
            )

    def refuse_reserved_columns(self) -> None:
        """Stops a pipeline that delivers a column with the name of one of icefloe's own."""
        refuse_reserved_columns(self.shape().delivered.arrow.names, table=self.session.pipeline.table)
