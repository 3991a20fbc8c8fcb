"""The promises of docs/sinks.md and docs/changes.md about a batch, beyond its sums."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.batch.rows.row_shape import RowShape
from icefloe.changes.columns import BATCH, CHANGE_ORDINAL, CHANGE_TYPE, COMMIT_SNAPSHOT_ID, COMMIT_TIMESTAMP, ChangeType
from icefloe.changes.hash_index import HashSlice
from icefloe.changes.row_hash.row_hashes import RowHashes
from icefloe.checkpoint.batch_spec import Identity
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.records import CommitRecord, OffsetRecord
from icefloe.errors import TerminalError
from icefloe.flow import Route
from icefloe.iceberg.schemas.column_paths import IdentifierColumns
from icefloe.iceberg.schemas.table_schema import TableSchema
from icefloe.iceberg.step import Step
from icefloe.pipeline.model import Pipeline

_DELETED = np.int8(1)
_INSERTED = np.int8(2)

_NAMES: Final = pa.array([kind.name for kind in ChangeType])


class IdentityOrder:
    """Runs of neighbouring changes of one identity; every identity must have one run in a batch.

    Holds 16 bytes for each identity of the slice. A batch too large for that is read in slices.
    """

    def __init__(self, hash_slice: HashSlice) -> None:
        self._slice = hash_slice
        self._held: list[RowHashes] = []
        self._last: tuple[int, int, np.int8] | None = None
        self._faults: dict[str, None] = {}

    def add(self, identities: RowHashes, ordinals: NDArray[np.int32], types: NDArray[np.int8]) -> None:
        """Adds changes of a part; the three have one length, which is not 0."""
        is_new = np.ones(len(identities), np.bool_)
        is_new[1:] = (identities.high[1:] != identities.high[:-1]) | (identities.low[1:] != identities.low[:-1])
        is_new_step = is_new.copy()
        is_new_step[1:] |= ordinals[1:] != ordinals[:-1]
        sides = np.where(types == ChangeType.DELETE, _DELETED, np.int8(0))
        sides = np.where(types == ChangeType.INSERT, _INSERTED, sides)
        if self._last is not None:
            identity, ordinal, side = self._last
            is_new[0] = identities[0] != identity
            if not is_new[0] and ordinals[0] == ordinal:
                sides[0] |= side
            if not is_new[0] and ordinals[0] < ordinal:
                self._fault_order()
        if (~is_new[1:] & (ordinals[1:] < ordinals[:-1])).any():
            self._fault_order()
        # Bits, so that OR shows both: 1 or 2 is a delete or an insert, 3 is one of each, which must be an update.
        by_step = np.bitwise_or.reduceat(sides, np.flatnonzero(is_new_step))
        if (by_step == _DELETED | _INSERTED).any():
            self._faults["rows of one identity went and came in one step, and are no update"] = None
        self._last = (identities[len(identities) - 1], int(ordinals[-1]), by_step[-1])
        starts = identities.take(np.flatnonzero(is_new))
        self._held.append(starts.take(self._slice.positions(starts)))

    def end_part(self) -> None:
        """Ends a part: the next changes belong to another one."""
        self._last = None

    def faults(self) -> list[str]:
        """Faults as sentences, each kind once."""
        held = RowHashes.concat(self._held)
        order = np.lexsort((held.low, held.high))
        high, low = held.high[order], held.low[order]
        # Each run is held once, so an identity that is held twice has two runs.
        if ((high[1:] == high[:-1]) & (low[1:] == low[:-1])).any():
            self._faults["the changes of one identity are not in one place of one part"] = None
        return list(self._faults)

    def _fault_order(self) -> None:
        self._faults["the changes of one identity are not in the order of their ordinals"] = None


class ChangePromises:
    """Checks one batch as its parts are read; holds no rows.

    Args:
        runs: None: the rows do not show the identity, or the batch promises no order.
    """

    def __init__(self, *, batch_number: int, steps: Sequence[Step], runs: IdentityOrder | None) -> None:
        self._batch_number = batch_number
        self._runs = runs
        self._snapshot_ids = np.array([step.commit_snapshot_id for step in steps], np.int64)
        self._timestamps_us = np.array([step.commit_timestamp_us for step in steps], np.int64)
        self._is_after_before = False
        self._last_ordinal = -1
        self._counts = np.zeros(len(ChangeType), np.int64)
        self._faults: dict[str, None] = {}

    def add(self, changes: pa.RecordBatch, types: NDArray[np.int8], identities: RowHashes | None) -> None:
        """Adds the next changes of a part."""
        if not len(types):
            return
        self._counts += np.bincount(types + 1, minlength=len(ChangeType) + 1)[1:]
        if (types < 0).any():
            self._fault(f"a {CHANGE_TYPE} is none of {', '.join(_NAMES.to_pylist())}")
        if pc.sum(pc.not_equal(changes.column(BATCH), self._batch_number)).as_py() or changes.column(BATCH).null_count:
            self._fault(f"{BATCH} is not {self._batch_number} everywhere")
        ordinals = changes.column(CHANGE_ORDINAL).fill_null(-1).to_numpy(zero_copy_only=False)
        inside = (ordinals >= 0) & (ordinals < len(self._snapshot_ids))
        if not inside.all():
            self._fault(f"a {CHANGE_ORDINAL} is not one of its {len(self._snapshot_ids)} steps")
        known_ordinals = ordinals[inside]
        for column, expected in ((COMMIT_SNAPSHOT_ID, self._snapshot_ids), (COMMIT_TIMESTAMP, self._timestamps_us)):
            values = changes.column(column).cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
            if (values[inside] != expected[known_ordinals]).any():
                self._fault(f"a {column} differs from its step")
        self._add_pairs(types, ordinals)
        if self._runs is not None and identities is not None:
            self._runs.add(identities, ordinals, types)

    def end_part(self) -> None:
        """Ends a part: the next changes belong to another one."""
        if self._is_after_before:
            self._fault(f"an {ChangeType.UPDATE_BEFORE.name} is not followed by its {ChangeType.UPDATE_AFTER.name}")
        self._is_after_before, self._last_ordinal = False, -1
        if self._runs is not None:
            self._runs.end_part()

    def faults(self, counts: Mapping[str, int]) -> list[str]:
        """Faults as sentences, each kind once."""
        read = {kind.name.lower(): int(self._counts[kind]) for kind in ChangeType}
        if read != {name: counts.get(name, 0) for name in read}:
            self._fault(f"it has {_text(read)}, but its manifest says {_text(counts)}")
        return [*self._faults, *(() if self._runs is None else self._runs.faults())]

    def _fault(self, sentence: str) -> None:
        self._faults[sentence] = None

    def _add_pairs(self, types: NDArray[np.int8], ordinals: NDArray[np.int32]) -> None:
        """An update is two neighbours of one step, before image first. They may span two calls."""
        # Each change next to the change before it. Both rows of the drawing must agree:
        #   types                         INSERT   UPDATE_BEFORE   UPDATE_AFTER   DELETE
        #   is an UPDATE_BEFORE before    -        -               yes            -
        #   is an UPDATE_AFTER            -        -               yes            -
        befores = np.concatenate([[self._is_after_before], types == ChangeType.UPDATE_BEFORE])
        afters = types == ChangeType.UPDATE_AFTER
        before_ordinals = np.concatenate([[self._last_ordinal], ordinals])[:-1]
        if (befores[:-1] & ~afters).any():
            self._fault(f"an {ChangeType.UPDATE_BEFORE.name} is not followed by its {ChangeType.UPDATE_AFTER.name}")
        if (~befores[:-1] & afters).any():
            self._fault(f"an {ChangeType.UPDATE_AFTER.name} does not follow its {ChangeType.UPDATE_BEFORE.name}")
        if (befores[:-1] & afters & (before_ordinals != ordinals)).any():
            self._fault("the two images of an update are of different steps")
        self._is_after_before, self._last_ordinal = bool(befores[-1]), int(ordinals[-1])


def change_types(column: pa.Array) -> NDArray[np.int8]:
    """`ChangeType` codes of names; -1 for any other name, and for null."""
    codes = pc.index_in(column, value_set=_NAMES).fill_null(-1)
    return codes.to_numpy(zero_copy_only=False).astype(np.int8)


def _text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts.get(kind.name.lower(), 0)} {kind.name}" for kind in ChangeType)


class BatchPromises:
    """The promises of one batch, and the columns that show the identity."""

    def __init__(self, pipeline: Pipeline, checkpoint: Checkpoint, commit: CommitRecord, schema: TableSchema) -> None:
        offset = offset_of(checkpoint, commit.batch_number)
        self._batch_number, self._steps = commit.batch_number, offset.spec.steps
        self.identity = IdentifierColumns()
        if commit.route == Route.SHUFFLE:
            self.identity = _identity_shown(pipeline, schema, offset.spec.identity)

    def begin(self, part: HashSlice) -> ChangePromises:
        """Checks for one reading of the batch."""
        runs = IdentityOrder(part) if self.identity else None
        return ChangePromises(batch_number=self._batch_number, steps=self._steps, runs=runs)


def offset_of(checkpoint: Checkpoint, batch_number: int) -> OffsetRecord:
    """The offset record of a delivered batch."""
    offset = checkpoint.offset(batch_number)
    if offset is None:
        raise TerminalError(
            f"the offset record of batch {batch_number} is gone from the checkpoint {checkpoint.url}, though the batch "
            "was delivered: restore it",
            batch_number=batch_number,
        )
    return offset


def delivered_shape(pipeline: Pipeline, schema: TableSchema, identity: Identity) -> RowShape:
    """Shape of delivered rows in a schema."""
    return RowShape.of(
        schema,
        identity=identity,
        columns=pipeline.columns,
        filter_text=pipeline.filter,
        filter_as_written=pipeline.as_written.filter,
        table=pipeline.table,
    )


def _identity_shown(pipeline: Pipeline, schema: TableSchema, identity: Identity) -> IdentifierColumns:
    """All identifier columns, or none: then the rows do not show an order. Row ids are never delivered."""
    try:
        shape = delivered_shape(pipeline, schema, identity)
    except TerminalError:
        return IdentifierColumns()  # the snapshot of its schema expired, and its columns have other names since
    return IdentifierColumns() if shape.is_identity_carried else shape.identity
