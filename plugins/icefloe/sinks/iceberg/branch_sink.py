"""A table whose rows another engine writes to a branch; the commit of the sink publishes it with the token."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final
from uuid import uuid4

import pyarrow as pa
from pyiceberg.table import Table, Transaction
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.table.update import RemoveSnapshotRefUpdate

from icefloe.errors import TerminalError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.iceberg.changelog import ChangelogSink
from icefloe.sinks.iceberg.keyed_table import bounded_columns
from icefloe.sinks.iceberg.mirror import MirrorSink
from icefloe.sinks.iceberg.table_sink import TableSink, append_files, trace_of, writes_snapshots
from icefloe.sinks.iceberg.target import LOAD_BRANCH, OvertakenError, TargetTable, Token, ref_update
from icefloe.sinks.iceberg.target_files import WrittenFiles
from icefloe.sinks.sink import refuse_lone_replay

__all__ = ["BranchSink", "ChangelogBranch", "MirrorBranch", "StatementBranch", "WritableBranch"]

_PREFIX: Final = "icefloe_written_"
_ATTEMPT: Final = "icefloe.branch"
"""In the summary of each snapshot that an engine makes: the branch that it was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableBranch:
    """A branch at the head that was inspected.

    Attributes:
        begin: id of the snapshot where it begins.
        columns: of the table.
        bounded: those whose bounds tell files apart, besides the key.
        is_emptied: True if the batch replaces the rows that are there.
        trace: what the summary of each new snapshot is to have.
    """

    name: str
    begin: int
    columns: Sequence[str]
    bounded: frozenset[str]
    is_emptied: bool
    trace: Mapping[str, str]


class BranchSink(TableSink):
    """Lets another engine write each batch to a branch, and moves main there; readers of main see whole batches only.

    Attributes:
        loads_aside: True if a load of several batches stays on a branch of its own until its last one.
    """

    most_format_version: ClassVar[int] = 3
    loads_aside: ClassVar[bool] = True

    def __init__(self, target: TargetTable) -> None:
        super().__init__(target)
        self._attempt = uuid4().hex

    def begin(self, batch: ProvenBatch) -> Mapping[str, object]:
        """The same, and remove what tries that were killed left."""
        facts = super().begin(batch)
        self._target.drop_branches(_PREFIX)
        return facts

    @abstractmethod
    def _write(self, branch: WritableBranch, batch: ProvenBatch, part: StagedPart) -> None:
        """Write a batch to the branch, and to nothing else."""

    @abstractmethod
    def _append_nothing(self, branch: str | None, trace: Mapping[str, str]) -> None:
        """Add a snapshot without rows to a branch; None: to main of a table that has none."""

    def _is_emptied(self, batch: ProvenBatch, token: Token) -> bool:  # noqa: ARG002
        return batch.begins_anew

    def _written(self, table: Table, batch: ProvenBatch, token: Token, part: StagedPart) -> Table:
        ready = self._ready(table, batch, token)
        is_emptied = self._is_emptied(batch, token)
        is_written = part.rows > 0 or is_emptied
        if not is_written and writes_snapshots(ready.metadata):
            return ready
        name, begin = self._branch(batch), _head(ready, self._origin(batch))
        self._target.set_branch(ready, name, begin)
        writable = WritableBranch(
            name=name,
            begin=begin,
            columns=tuple(each.name for each in ready.schema().fields),
            bounded=frozenset(bounded_columns(ready.metadata)),
            is_emptied=is_emptied,
            trace={**trace_of(token, batch), _ATTEMPT: name},
        )
        try:
            if is_written:
                self._write(writable, batch, part)
            written = self._target.load()
            head = written.metadata.snapshot_by_name(name)
            if head is not None and head.snapshot_id == begin and not writes_snapshots(written.metadata):
                self._append_nothing(name, writable.trace)
                written = self._target.load()
        except TerminalError as cause:
            if name in self._target.load().metadata.refs:
                raise
            raise OvertakenError(f"another process that delivers to {self.url} removed branch {name}") from cause
        self._refuse_elsewhere(written, name, begin)
        if not _is_as_inspected(ready, written, name, begin):
            raise OvertakenError(f"another writer committed to {self.url}")
        return written

    def _ready(self, table: Table, batch: ProvenBatch, token: Token) -> Table:
        """The table with a head, and with the columns of the batch: an engine cannot add them in the same commit."""
        transaction = Transaction(table)
        # With their ids: a try that is killed here must know its own columns from those of somebody else.
        wanted = replace(token, fields=self._evolved(transaction, batch, token))
        is_headless, trace = MAIN_BRANCH not in table.metadata.refs, trace_of(token, batch)
        if is_headless and writes_snapshots(table.metadata):
            append_files(transaction, (), trace, MAIN_BRANCH)
        if transaction._updates or wanted != token:  # noqa: SLF001
            self._commit(table, transaction, wanted)
        if is_headless and not writes_snapshots(table.metadata):
            self._append_nothing(None, trace)
        ready = self._target.load()
        if Token.of(ready, self.url) != wanted:
            raise OvertakenError(f"another process delivers to {self.url}")
        return ready

    def _refuse_elsewhere(self, table: Table, name: str, begin: int) -> None:
        metadata = table.metadata
        heads = [metadata.snapshot_by_id(ref.snapshot_id) for each, ref in metadata.refs.items() if each != name]
        for each in (*heads, *ancestors_of(metadata.snapshot_by_name(MAIN_BRANCH), metadata)):
            marks = {} if each is None or each.summary is None else each.summary.additional_properties
            if each is not None and marks.get(_ATTEMPT) == name:
                raise TerminalError(
                    f"the statement wrote snapshot {each.snapshot_id} to {self.url} itself, or to another branch: "
                    f"write to {{target}} only, and set the table to snapshot {begin} again",
                    key="sink.statement",
                )

    def _stage(
        self,
        transaction: Transaction,
        token: Token,
        batch: ProvenBatch,
        part: StagedPart,  # noqa: ARG002
        files: WrittenFiles,  # noqa: ARG002
    ) -> str:
        refs = transaction.table_metadata.refs
        name, to = self._branch(batch), self._destination(batch)
        begin = refs[self._origin(batch)].snapshot_id
        head = refs[name].snapshot_id if name in refs else begin
        if to not in refs or refs[to].snapshot_id != head:
            transaction._stage((ref_update(to, head),))  # noqa: SLF001
        if head == begin:
            # Nothing was to be written, and main must move all the same.
            append_files(transaction, (), trace_of(token, batch), to)
        is_over = {name, LOAD_BRANCH} if to == MAIN_BRANCH else {name}
        transaction._stage(tuple(RemoveSnapshotRefUpdate(ref_name=each) for each in sorted(is_over & refs.keys())))  # noqa: SLF001
        return to

    def _branch(self, batch: ProvenBatch) -> str:
        return f"{_PREFIX}{batch.batch_number}_{self._attempt}"

    def _origin(self, batch: ProvenBatch) -> str:
        goes_on = self.loads_aside and batch.is_load and not batch.begins_anew
        return LOAD_BRANCH if goes_on else MAIN_BRANCH

    def _destination(self, batch: ProvenBatch) -> str:
        is_aside = self.loads_aside and batch.is_load and not batch.ends_load
        return LOAD_BRANCH if is_aside else MAIN_BRANCH


class StatementBranch(BranchSink):
    """The target of a statement, which alone knows what the rows and columns are."""

    keyed: ClassVar[bool] = False

    def check(self) -> None:
        """The same; nobody else knows which columns to make."""
        self._refuse_missing()
        super().check()

    def claim(self, origin: Origin, *, takes_over: bool = False, only_looks: bool = False) -> None:
        """The same, of a table that is there."""
        self._refuse_missing()
        super().claim(origin, takes_over=takes_over, only_looks=only_looks)

    def _refuse_missing(self) -> None:
        if self._target.find() is None:
            raise TerminalError(
                f"{self.url} is missing: create it with the columns that sink.statement writes", key="sink.table"
            )

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Refused."""
        raise TerminalError(
            f"{self.url} has what the statement of its pipeline made of the changes: only a query of yours can compare "
            "it with the source"
        )

    def _columns(self, batch: ProvenBatch) -> pa.Schema:
        return batch.shown_schema

    def _evolved(self, transaction: Transaction, batch: ProvenBatch, token: Token) -> dict[int, int]:  # noqa: ARG002
        refuse_lone_replay(batch, is_unfit=token.last is None, place=self.url)
        return {}


class MirrorBranch(BranchSink, MirrorSink):
    """A mirror whose rows another engine removes and adds."""


class ChangelogBranch(BranchSink, ChangelogSink):
    """A changelog that another engine appends to."""

    loads_aside: ClassVar[bool] = False

    def _is_emptied(self, batch: ProvenBatch, token: Token) -> bool:  # noqa: ARG002
        # Batches of the owner before may have the same numbers.
        return token.generation > (1 if token.last is None else token.last.generation)


def _head(table: Table, branch: str) -> int:
    return table.metadata.refs[branch].snapshot_id


def _is_as_inspected(ready: Table, written: Table, name: str, begin: int) -> bool:
    """True if only the branch has moved, on from where it began: the catalog would not see that it did not."""
    kept = all(ready.metadata.refs.get(each) == written.metadata.refs.get(each) for each in (MAIN_BRANCH, LOAD_BRANCH))
    schemas = {ready.metadata.current_schema_id, written.metadata.current_schema_id}
    head = None if name not in written.metadata.refs else written.metadata.snapshot_by_name(name)
    ancestors = {each.snapshot_id for each in ancestors_of(head, written.metadata)}
    return kept and len(schemas) == 1 and begin in ancestors
