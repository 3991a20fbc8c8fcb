"""The promises of a committed batch about order and steps, read from the checkpoint for verify."""

from collections.abc import Sequence

from icefloe.audit.change_promises import ChangePromises
from icefloe.audit.identity_order import IdentityOrder
from icefloe.batch.rows.row_shape import RowShape
from icefloe.changes.hash_slice import HashSlice
from icefloe.checkpoint.identity import Identity
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import CommitRecord, OffsetRecord
from icefloe.errors import TerminalError
from icefloe.flow import Route
from icefloe.iceberg.schemas.identifier_columns import ColumnPath
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.pipeline.model import Pipeline


class BatchPromises:
    """The promises of one batch, and the columns in which its rows show their identity.

    Args:
        pipeline: the pipeline.
        checkpoint: its checkpoint.
        commit: commit of the batch.
        schema: schema in which it was delivered.

    Raises:
        TerminalError: its offset record is gone.
    """

    def __init__(self, pipeline: Pipeline, checkpoint: Checkpoint, commit: CommitRecord, schema: TableSchema) -> None:
        offset = _offset(checkpoint, commit)
        self._batch_number = commit.batch_number
        self._steps = offset.spec.steps
        self.identity = _identity_shown(pipeline, schema, offset.spec.identity) if commit.route == Route.SHUFFLE else ()

    def begin(self, part: HashSlice) -> ChangePromises:
        """Checks for one reading of the batch.

        Args:
            part: the identities whose place is checked.
        """
        runs = IdentityOrder(part) if self.identity else None
        return ChangePromises(batch_number=self._batch_number, steps=self._steps, runs=runs)


def delivered_shape(pipeline: Pipeline, schema: TableSchema, identity: Identity) -> RowShape:
    """Shape of the rows that a pipeline delivers in a schema."""
    return RowShape.of(
        schema,
        identity=identity,
        columns=pipeline.columns,
        filter_text=pipeline.filter,
        filter_as_written=pipeline.as_written.filter,
        table=pipeline.table,
    )


def _offset(checkpoint: Checkpoint, commit: CommitRecord) -> OffsetRecord:
    found = checkpoint.offset(commit.batch_number)
    if found is None:
        raise TerminalError(
            f"the offset record of batch {commit.batch_number} is gone from the checkpoint {checkpoint.url}, "
            "though the batch is committed: restore it",
            batch_number=commit.batch_number,
        )
    return found


def _identity_shown(pipeline: Pipeline, schema: TableSchema, identity: Identity) -> Sequence[ColumnPath]:
    """The identifier columns if all of them are delivered; row ids never are. Empty: the rows do not show an order."""
    try:
        shape = delivered_shape(pipeline, schema, identity)
    except TerminalError:
        return ()  # the snapshot of its schema expired, and its columns have other names since
    return () if shape.is_identity_carried else shape.identity
