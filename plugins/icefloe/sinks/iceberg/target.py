"""The target: a table in a catalog, whose token says which batches it holds."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Annotated, Final, Literal, TypeVar

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchNamespaceError,
    NoSuchTableError,
    ResolveError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from icefloe.documents import LEFT_OUT_IF_EMPTY, LEFT_OUT_IF_NONE, SnapshotId, dump_document, load_document
from icefloe.errors import IcefloeError, TerminalError, TransientError, lack_of_memory_named, one_line
from icefloe.iceberg.catalog.catalog_errors import catalog_errors
from icefloe.patience import Patience
from icefloe.sinks.batch_to_deliver import Origin

__all__ = ["TargetTable"]

TOKEN: Final = "icefloe.token"  # noqa: S105 - no secret
"""The table property that decides. Summaries of snapshots name pipeline and batch for people."""
LOAD_BRANCH: Final = "icefloe_load"
"""The branch of a load of several batches, until its last one moves main there."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBatch:
    """The last batch in the table, and the snapshot that brought it."""

    generation: int
    number: int
    load: int  # number of the batch with which the present load began
    up_to_snapshot_id: SnapshotId | None  # of the source
    end: str  # as ``ProvenBatch.end``
    is_loading: Annotated[bool, LEFT_OUT_IF_EMPTY] = False  # after a batch of a load that is not its last one
    # Of a history, the newest time in it, and the one with which the present load began.
    made_current_at_ms: Annotated[int | None, LEFT_OUT_IF_NONE] = None
    load_current_at_ms: Annotated[int | None, LEFT_OUT_IF_NONE] = None
    branch: str = MAIN_BRANCH  # another one while a load is still invisible
    snapshot_id: SnapshotId
    sequence_number: int

    @property
    def order(self) -> tuple[int, int]:
        """Greater for later batches, and for a later owner."""
        return self.generation, self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class Token(Origin):
    """Whose table it is, and what it holds. A batch or claim moves a branch, so that of two writers one is refused."""

    version: Literal[1] = 1
    generation: int = 1  # one more with each take-over; its batches are later
    last: Annotated[LastBatch | None, LEFT_OUT_IF_NONE] = None
    # Field ids of the source, and those of the target's columns that hold them.
    fields: Annotated[Mapping[int, int], LEFT_OUT_IF_EMPTY] = field(default_factory=dict)
    # Ids of the target's schemas, by number of the first batch in them: summaries of snapshots expire.
    schemas: Annotated[Mapping[int, int], LEFT_OUT_IF_EMPTY] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, place: str) -> "Token | None":
        """The token of a table; None: it is nobody's."""
        text = _token_text(table)
        return None if text is None else load_document(cls, text.encode(), what=f"the property {TOKEN} of {place}")

    def after(self, last: LastBatch, fields: Mapping[int, int], schema_id: int) -> "Token":
        """The token of a further batch; a replay of an earlier one leaves the last one in place."""
        schemas = {number: each for number, each in self.schemas.items() if number < last.number}
        if self.last is not None and self.last.order > last.order:
            last = replace(self.last, snapshot_id=last.snapshot_id, sequence_number=last.sequence_number)
            schemas = {**self.schemas}
        elif last.load == last.number or schemas.get(max(schemas, default=-1)) != schema_id:
            schemas = {**(schemas if last.load < last.number else {}), last.number: schema_id}
        return replace(self, last=last, fields=fields, schemas=schemas)


UNFIT: Final = (
    ArithmeticError, AttributeError, LookupError, NotImplementedError, ResolveError, TypeError,
    UnsupportedPyArrowTypeException, ValidationError, ValueError,
)  # fmt: skip
"""Errors of PyIceberg for tables and values that it does not take."""


class OvertakenError(TransientError):
    """Another commit came first: nothing of this one landed."""


class TargetTable:
    """A table of a catalog, loaded anew for each look."""

    def __init__(self, catalog: Catalog, name: str) -> None:
        self._catalog = catalog
        self._name = name
        self.url = f"iceberg://{catalog.name}/{name}"

    def find(self) -> Table | None:
        """The table as its catalog has it now; None: there is none."""
        with suppress(NoSuchTableError, NoSuchNamespaceError):
            return self._ask(f"load table {self._name}", partial(self._catalog.load_table, self._name))
        return None

    def load(self) -> Table:
        """The table; an error if there is none."""
        if (found := self.find()) is None:
            raise TerminalError(
                f"{self.url} is gone: it was dropped or renamed after a pipeline began to write to "
                "it; bring it back, or run `icefloe reset` for the pipeline, which makes it again"
            )
        return found

    @property
    def has_server(self) -> bool:
        """False if PyIceberg writes the metadata files of the catalog's tables by itself."""
        return not isinstance(self._catalog, MetastoreCatalog)

    def namespace_is_missing(self) -> bool:
        """True if the table cannot be made, because its namespace is not there."""
        namespace = self._name.rpartition(".")[0]
        return not self._ask(f"look for namespace {namespace}", partial(self._catalog.namespace_exists, namespace))

    def create(self, schema: Schema, partitions: PartitionSpec, token: Token, properties: Mapping[str, str]) -> bool:
        """Make the table with its token; False if somebody made one first."""
        make = partial(
            self._catalog.create_table,
            self._name,
            schema,
            partition_spec=partitions,
            properties={**properties, TOKEN: dump_document(token).decode()},
        )
        try:
            self._ask(f"create table {self._name}", make)
        except TableAlreadyExistsError:
            return False
        except NoSuchNamespaceError as cause:
            raise TerminalError(
                f"{self.url} cannot be made: its namespace {self._name.rpartition('.')[0]} is missing; create it",
                key="sink.table",
            ) from cause
        return True

    def commit(self, table: Table, transaction: Transaction) -> None:
        """Publish a transaction that adds one snapshot or more, if main and its branches are where the table has them.

        Raises:
            OvertakenError: main has moved; nothing landed.
            TransientError: it may land later, or not.
        """
        updates = tuple(_keeping_retention(each, table) for each in transaction._updates)  # noqa: SLF001
        heads = {name: ref.snapshot_id for name, ref in table.metadata.refs.items()}
        # Of a load too, which does not move main. A table without a snapshot has no other branch than main, and
        # PyIceberg refuses to assert that.
        moved = {LOAD_BRANCH} if heads else set[str]()
        ours = {each.snapshot.snapshot_id for each in updates if isinstance(each, AddSnapshotUpdate)}
        requirements: tuple[TableRequirement, ...] = (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            AssertCurrentSchemaId(current_schema_id=table.metadata.current_schema_id),
            *(AssertRefSnapshotId(ref=name, snapshot_id=heads.get(name)) for name in sorted({MAIN_BRANCH, *moved})),
        )
        # Not by the transaction itself, which moves to a head that nobody inspected, and commits there.
        publish = partial(self._catalog.commit_table, table, requirements, updates)
        try:
            self._ask(f"commit to table {self._name}", publish)
        except (CommitFailedException, IcefloeError, NoSuchTableError) as cause:
            now = self._after(cause)
            # A client may have sent it twice, and the first one landed. A snapshot of a branch was there before, and so
            # may be the token.
            tokens = {each.updates.get(TOKEN) for each in updates if isinstance(each, SetPropertiesUpdate)}
            is_there = _token_text(now) in tokens - {_token_text(table)}
            if is_there or any(each.snapshot_id in ours for each in now.metadata.snapshots):
                return
            if isinstance(cause, TransientError):
                raise self._unknown() from cause
            for producer in transaction._snapshot_producers:  # noqa: SLF001
                producer._clean_all_uncommitted()  # noqa: SLF001
            # A commit to another branch makes some catalogs refuse ours by its sequence number.
            if isinstance(cause, CommitFailedException) or now.metadata_location != table.metadata_location:
                raise OvertakenError(f"another writer committed to {self.url}") from cause
            raise

    def set_branch(self, table: Table, name: str, snapshot_id: int) -> None:
        """Make a branch, or move it."""
        self._change_refs(table, f"make branch {name} of", (ref_update(name, snapshot_id),))

    def drop_branches(self, prefix: str) -> None:
        """Remove the branches of tries that ended before they were published."""
        table = self.load()
        left = [RemoveSnapshotRefUpdate(ref_name=name) for name in table.metadata.refs if name.startswith(prefix)]
        if left:
            self._change_refs(table, "remove branches of", tuple(left))

    def _change_refs(self, table: Table, doing: str, updates: tuple[TableUpdate, ...]) -> None:
        requirements = (AssertTableUUID(uuid=table.metadata.table_uuid),)
        change = partial(self._catalog.commit_table, table, requirements, updates)
        try:
            self._ask(f"{doing} table {self._name}", change)
        except CommitFailedException as cause:
            raise OvertakenError(f"another writer committed to {self.url}") from cause

    def _after(self, cause: Exception) -> Table:
        """The table after a commit that may have landed."""
        try:
            return self.load()
        except IcefloeError:
            raise self._unknown() from cause

    def _unknown(self) -> TransientError:
        return TransientError(
            f"catalog {self._catalog.name!r} did not say whether a commit to {self.url} landed: run again, and what "
            "landed is found"
        )

    def _ask(self, doing: str, call: Callable[[], Answer]) -> Answer:
        with catalog_errors(self._catalog.name, doing):
            try:
                return Patience.of(os.environ, place=self.url).wait_for(call, doing)
            except CommitStateUnknownException as cause:
                # A server that fails has the type of one that refuses.
                raise TimeoutError(str(cause)) from cause


def ref_update(name: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    """The update that lets a branch begin, or go on, at a snapshot."""
    fields = {"ref-name": name, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot_id}
    return SetSnapshotRefUpdate.model_validate(fields)


def _token_text(table: Table) -> str | None:
    return table.metadata.properties.get(TOKEN)


def was_rolled_back(table: Table, last: LastBatch) -> bool:
    """True if the branch no longer has the snapshot of the last batch."""
    head = table.metadata.snapshot_by_name(last.branch)
    if head is None or (head.sequence_number or 0) < last.sequence_number:
        return True
    if table.metadata.snapshot_by_id(last.snapshot_id) is None:
        return False
    oldest = head
    for oldest in ancestors_of(head, table.metadata):
        if oldest.snapshot_id == last.snapshot_id:
            return False
    # If the chain ends at a later one, its parents have expired, and the snapshot may be behind them.
    return (oldest.sequence_number or 0) <= last.sequence_number


@contextmanager
def pyiceberg_errors(place: str, doing: str) -> Iterator[None]:
    """Turn an error of PyIceberg, which has many types for what it does not take, into one sentence."""
    try:
        with lack_of_memory_named():
            yield
    except (IcefloeError, MemoryError):
        raise
    except FileNotFoundError as cause:
        raise TerminalError(
            f"{place} names a file that is gone ({one_line(cause)}): restore it, or drop the table and load it again "
            "by icefloe reset"
        ) from cause
    except OSError as cause:
        raise TransientError(f"the storage of {place} does not answer: {one_line(cause)}; run again") from cause
    except UNFIT as cause:
        raise TerminalError(
            f"PyIceberg cannot {doing} {place} ({type(cause).__name__}: {one_line(cause)}): partition the table "
            "otherwise, compact it if it has equality deletes, or leave the column out of columns"
        ) from cause
    except Exception as cause:
        raise TransientError(f"cannot {doing} {place}: {one_line(cause)}; run again") from cause


def _keeping_retention(update: TableUpdate, table: Table) -> TableUpdate:
    """PyIceberg's own update clears how long a branch keeps its snapshots."""
    if not isinstance(update, SetSnapshotRefUpdate) or (ref := table.metadata.refs.get(update.ref_name)) is None:
        return update
    kept = ("min_snapshots_to_keep", "max_snapshot_age_ms", "max_ref_age_ms")
    return update.model_copy(update={name: getattr(ref, name) for name in kept})


def claimed(token: Token | None, origin: Origin, *, takes_over: bool) -> Token:
    """The token of a table that an origin takes over, or gets as the first one."""
    generation = (1 if token is None else token.generation) + takes_over
    return Token(**asdict(origin), generation=generation, last=None if token is None else token.last)
