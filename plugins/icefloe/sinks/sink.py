"""The contract of a sink: it takes proven batches, and makes their changes arrive.

A batch is staged as `change_files`, and its sums are proven. Then it is delivered: `begin` once for each try, then
every part, then `finish`. Each may be repeated at any time, by a retry, a second worker, or a zombie that wakes up
after later batches. So they hold:

- *Repeating*: a part that is there already is found there, and nothing is there twice.
- *Fencing*: a call of a batch that is over changes nothing that a later batch has written. It returns, or raises
  `SupersededError`.
- *Honesty*: what the destination refused for good is an error, or is counted as a dead letter. It is never left out in
  silence.

Class attributes say what else a sink can do; other methods are never called.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

import pyarrow as pa
from pydantic import BeforeValidator, TypeAdapter, ValidationError

from icefloe.documents import Document
from icefloe.errors import TerminalError, TransientError
from icefloe.pipeline.settings import find_sink
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.row_order import RowOrder
from icefloe.storage.store import Store
from icefloe.units import parse_bytes

__all__ = ["KeptVersions", "PartDelivery", "Sink", "SupersededError", "open_sink"]

SchemaOf: TypeAlias = Callable[[int], pa.Schema]
"""The schema of the changes of a batch, by its number."""


class SupersededError(TerminalError):
    """A batch that is no replay came too late: the destination holds a later one, which stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDelivery(Document):
    """The result of one part; recorded, so that a retry skips the part.

    Attributes:
        rows: changes read.
        documents: documents written or deleted, or events sent, over all tries of this call.
        repeated: of these, how many were there from an earlier try.
        retries: requests sent again.
        refused: documents refused for now, and taken later.
        dead_letters: documents refused for good, in the dead-letter folder.
        superseded: of a replay, documents left alone because a later batch has written them.
        bytes: sent.
        details: facts for `finish`; JSON values only. Of a sink that commits once, texts for people, by name.
    """

    version: Literal[1] = 1
    number: int
    rows: int
    documents: int
    repeated: int = 0
    retries: int = 0
    refused: int = 0
    dead_letters: int = 0
    superseded: int = 0
    bytes: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptVersions:
    """The versions of rows that a destination keeps.

    Attributes:
        load: number of the batch with which the present load began; so is ``last`` of the last batch.
        since_ms: time since which each state is known.
        columns: names, of those whose changes make a version.
        read: returns the versions: when each began, when it ended (null: it is current), and these columns.
    """

    load: int
    last: int
    since_ms: int
    columns: Sequence[str]
    read: Callable[[], Iterator[pa.RecordBatch]]


class Sink(ABC):
    """A destination of proven batches. Each process that needs it opens and closes it.

    Attributes:
        keyed: True if it holds one entry per identity, so that the pipeline needs identifier columns. False if it holds
            the changes themselves.
        takes_whole_rows: True if a keyed sink tells rows apart by all their values, so that they need no identity.
        commits_once: True if a batch arrives by one commit, as in a table. `deliver` is then called once, in the
            driver, with one part of all changes. False if parts arrive one by one, in tasks at once.
        arrives_once: False if a batch that is tried again may be there twice; `icefloe validate` says so.
        needs_spark: True if a batch is delivered inside of a Spark application, whatever its size.
        keeps_deletions: True if marks of deleted rows stay, so that no late write brings a row back: `purge`.
        keeps_written_columns: True if changes keep the columns that they were written with: `read_back_as_written`.
        finds_keys: False if `read_back_as_written` ignores its keys, so that the caller filters.
        reads_ranges: True if a keyed sink says which batch its rows are of, and reads some of them: `last_batch` and
            `read_range`.
        wants_unique_keys: True if a key with several rows is a fault (``duplicates: fail``).
        order_by: dotted names of columns; parts are then ranges of their values, each part sorted by them.
        purge_after: age in seconds at which upkeep purges marks, if the pipeline has the key ``purge_after``.
        keeps_updates: True if both rows of an update stay next to each other, sorted by the one after it.
        source_uuid: of the table that the pipeline reads, while it claims the sink; None: not known.
        shows_removed_rows: False if a log leaves out rows before updates, and shows of a deleted row its key alone.
    """

    keyed: ClassVar[bool]
    commits_once: ClassVar[bool] = False
    arrives_once: ClassVar[bool] = True
    needs_spark: ClassVar[bool] = False
    keeps_deletions: ClassVar[bool] = False
    keeps_written_columns: ClassVar[bool] = False
    finds_keys: ClassVar[bool] = True
    reads_ranges: ClassVar[bool] = False
    wants_unique_keys: bool = False
    takes_whole_rows: bool = False
    source_uuid: str | None = None
    purge_after: float | None = None
    shows_removed_rows: bool = True
    order_by: tuple[str, ...] = ()
    keeps_updates: bool = False

    @property
    @abstractmethod
    def url(self) -> str:
        """The destination, for people; without secrets."""

    @abstractmethod
    def check(self) -> None:
        """Prove that the destination answers and may be written; leaves nothing behind.

        Raises:
            TerminalError: it cannot be written.
            TransientError: it did not answer.
        """

    def order(self, batch: ProvenBatch) -> RowOrder:
        """The order of a batch if there is ``order_by``; TerminalError if a column does not fit."""
        return RowOrder.of(batch, self.order_by, keeps_updates=self.keeps_updates)

    @abstractmethod
    def claim(self, origin: Origin, *, takes_over: bool = False, only_looks: bool = False) -> None:
        """Make the destination an origin's own, before its first batch is opened; repeating it has no further effect.

        Args:
            takes_over: True if another origin's destination becomes this one's. Its batches count as later than the
                other's.
            only_looks: True if nothing is to be changed, and errors are all that is wanted.

        Raises:
            TerminalError: the destination is another origin's; or it is filled and nobody's, and the fact ``owner`` of
                the error is empty.
        """

    @abstractmethod
    def begin(self, batch: ProvenBatch) -> Mapping[str, object]:
        """Prepare the destination for a batch, in the driver, before any of its parts; may be repeated at any time.

        Returns:
            Facts that every part needs, such as the index behind an alias; JSON values only. Those of the first try are
            recorded, and all later tries and parts get them. So a part that wakes up late never takes for its own what
            the alias names by then. Return only facts that no later try may change. `deliver` asks for settings that
            somebody may correct.

            A fact ``destination`` says in words which place takes the parts, with an id of this place alone, such as
            the uuid of an index. If a later try finds another one, the batch is refused: recorded parts are not sent
            again, and would be missing there.

        Raises:
            SupersededError: the destination holds a later batch.
            TerminalError: the batch does not fit: its columns, its identity, or another origin; or it continues batches
                that the destination does not know.
        """

    @abstractmethod
    def deliver(self, batch: ProvenBatch, begun: Mapping[str, object], part: StagedPart) -> PartDelivery:
        """Deliver one part, or the whole batch if it ``commits_once``; may be repeated, and run in two places at once.

        Args:
            begun: facts of `begin`, as recorded.

        Raises:
            SupersededError: the destination holds a later batch, which stays.
            TerminalError: the destination refuses rows for good.
            TransientError: it did not answer, or refused for longer than the patience allows.
        """

    @abstractmethod
    def finish(self, batch: ProvenBatch, begun: Mapping[str, object], deliveries: Sequence[PartDelivery]) -> None:
        """Make the batch visible as a whole, in the driver, after all its parts; may be repeated at any time.

        Args:
            begun: facts of `begin`, as recorded.
            deliveries: of all parts, by number.

        Raises:
            DamagedPartsError: delivered parts are lost. They are delivered again, then `finish` is called again.
            SupersededError: the destination holds a later batch, which stays.
            TerminalError: all parts together have too many dead letters. Parts with some are delivered again in the
                next try.
        """

    @abstractmethod
    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        """Rows or changes that the destination really holds.

        A keyed sink gives the table's columns of ``schema``, one row per key, as of one moment. Another sink gives all
        columns of ``schema``, one row per change, in the order of the changes of each key.

        Args:
            schema: as in `ProvenBatch`, without hidden columns that the destination does not hold.
            keys: identifier columns of the only rows to be read; None: all rows.

        Raises:
            TransientError: a load replaced the rows while they were read.
        """

    def last_batch(self, origin: Origin) -> int | None:
        """The number of an origin's last batch, whose rows readers see; None: it has brought none.

        Between two calls with one answer no batch has changed the rows.

        Raises:
            TerminalError: the destination is another origin's.
            TransientError: a load is arriving, whose rows readers do not see yet.
        """
        raise NotImplementedError

    def read_range(
        self, schema: pa.Schema, column: str, *, first: int | None, stop: int | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of `read_back` by a column of whole numbers.

        Args:
            first: inclusive; None: from the smallest one on, nulls too.
            stop: exclusive; None: to the largest one.
        """
        raise NotImplementedError

    def may_lack_oldest(self) -> bool:
        """False if a log has all keys since its last load: no rule of its own removes the oldest.

        Raises:
            TerminalError: nothing is left, which no rule explains.
        """
        return True

    def may_lack_replaced(self) -> bool:
        """False if no rule of a log removes changes of a key that have a later one."""
        return True

    def read_back_as_written(
        self, schema_of: SchemaOf, *, first_batch: int = 0, keys: pa.RecordBatch | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The changes in the columns of their batches, in the order of `read_back`; each record batch is of one batch.

        Args:
            schema_of: the schema in which a batch was delivered.
            first_batch: changes of earlier batches are left out.
            keys: as in `read_back`.
        """
        raise NotImplementedError

    def kept_versions(self, schema: pa.Schema, keys: Sequence[str]) -> KeptVersions | None:  # noqa: ARG002
        """Every version of each row, of a destination that keeps them; None: it does not, or has none yet.

        Args:
            schema: as in `read_back`.
            keys: names of columns that are in the result even if their changes make no version.
        """
        return None

    def purge(self, *, before: datetime, dry_run: bool = False) -> int:
        """Remove the marks of rows deleted before a time (aware); returns how many. A dry run only counts."""
        raise NotImplementedError

    def dead_letters(self) -> Mapping[int, int]:
        """Number of letters by batch, of what was refused for good; empty if none are kept."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Give back connections. A closed sink is not used again."""


def superseded(batch: ProvenBatch, place: str) -> SupersededError:
    """The error of a batch that came too late."""
    return SupersededError(
        f"batch {batch.batch_number} came too late for {place}, which has a later one: nothing of it was changed; if "
        "no other process runs the pipeline, its checkpoint is older than the sink: run `icefloe reset "
        f"{batch.origin.pipeline}`, which loads the table again"
    )


def refuse_other_record(
    batch: ProvenBatch,
    last: tuple[int, int] | None,  # generation and number of the batch that began last; None: none
    generation: int,  # number of take-overs, up to the batch's owner
    *,
    place: str,
    elsewhere: str,  # part of the sentence: why the record may be missing, and which key to correct
    last_end: str | None = None,  # of the last batch there, as `ProvenBatch.end`, if the record has it
    is_filled: Callable[[], bool] = lambda: False,  # rows there must outlast a replay that begins nothing
) -> None:
    """Raise unless the record of a destination ends where the journal says.

    ==============================  ==================================================================
    the last batch there            the batch
    ==============================  ==================================================================
    none, or none known any more    must be the first one of its pipeline
    a later one                     must be a replay
    the same one, to another end    must be a replay: the checkpoint was restored, and planned it again
    of an owner before              must begin anew, or be a replay
    before the last one delivered   must begin anew, or be a replay: the destination was restored
    ==============================  ==================================================================
    """
    name, number, before = batch.origin.pipeline, batch.batch_number, batch.delivered_before
    reset = f"run `icefloe reset {name}`, which loads the table again"
    if last is None:
        if before is not None or (batch.is_replay and not batch.begins_anew and is_filled()):
            raise TerminalError(
                f"{place} knows nothing of pipeline {name}, and batch {number} goes on where others ended: "
                f"{elsewhere}, or {reset}"
            )
        return
    if batch.is_replay:
        return
    if last > (generation, number):
        raise superseded(batch, place)
    if last == (generation, number) and last_end not in (None, batch.end):
        raise TerminalError(
            f"{place} has batch {number} of {name} up to {last_end}, and this batch {number} goes up to "
            f"{batch.end}: the checkpoint was restored from a backup, or is another one; bring "
            f"back the one that goes with {place}, or {reset}"
        )
    if batch.begins_anew:
        return
    if last[0] < generation:
        raise TerminalError(
            f"{place} was taken over from another pipeline and has its rows, and batch {number} of pipeline {name} "
            f"replaces nothing: {reset}"
        )
    if before is not None and last[1] < before:
        raise TerminalError(
            f"{place} had batch {before} of {name}, and says that batch {last[1]} was the last: it was restored from a "
            f"backup, or is another one; bring what it lacks by `icefloe deliver {name} --batches "
            f"{last[1] + 1}-{before}`, or {reset}"
        )


def refuse_gap(
    batch: ProvenBatch,
    last: tuple[int, int],
    up_to_snapshot_id: int | None,
    generation: int,
    *,
    is_loading: bool,  # the last batch was one of a load, and not its last one: all of them end at one snapshot
    place: str,
) -> None:
    """Raise if a replay leaves out batches after the last one in a table, which ends at a snapshot of the source."""
    is_next = not is_loading or (batch.is_load and last == (generation, batch.batch_number - 1))
    is_ahead = batch.is_replay and last < (generation, batch.batch_number)
    if is_ahead and (batch.after_snapshot_id != up_to_snapshot_id or not is_next):
        raise TerminalError(
            f"{place} ends with batch {last[1]} at snapshot {up_to_snapshot_id} of the source, and batch "
            f"{batch.batch_number} goes on after snapshot {batch.after_snapshot_id}: deliver the batches between them "
            "first"
        )


def refuse_load(place: str, *, is_loading: bool) -> None:
    """Raise while a load of several batches arrives, whose rows readers do not see yet."""
    if is_loading:
        raise TransientError(f"a load is arriving in {place}: verify again after its last batch")


def refuse_lone_replay(batch: ProvenBatch, *, is_unfit: bool, place: str) -> None:
    """Raise if a replay cannot make a table equal to the source, which has no rows from before it, or other columns."""
    if is_unfit and batch.is_replay and not batch.begins_anew:
        raise TerminalError(
            f"batch {batch.batch_number} alone does not make {place} equal to the table: run `icefloe reset "
            f"{batch.origin.pipeline}`, which loads the table"
        )


_Options = TypeVar("_Options")
SizeBytes: TypeAlias = Annotated[
    int, BeforeValidator(lambda size: parse_bytes(size) if isinstance(size, str) else size)
]
"""An option that may be a text such as ``5MiB``."""
SinkFactory: TypeAlias = Callable[..., Sink]
"""Makes a sink: ``factory(options, *, connection, open_store)``; see `open_sink`."""


def open_sink(
    settings: Mapping[str, Any], *, connection: Mapping[str, Any], open_store: Callable[[str], Store]
) -> Sink:
    """The sink that a pipeline describes.

    Args:
        settings: the pipeline's ``sink``: ``type``, and the other keys in ``options``, with ``${ENV}`` expanded.
        connection: of ``sink.conn_id``: ``conn_type``, ``host``, ``port``, ``schema``, ``login``, ``password`` and
            ``extra``, a mapping. Empty: there is none.
        open_store: opens a folder of the pipeline's storage by its URL.
    """
    sink_type = settings["type"]
    found = find_sink(sink_type)
    if found is None:
        raise TerminalError(
            f"sink.type is {sink_type!r}, but no package that is installed here has such a sink: correct it, or "
            "install the package wherever tasks run",
            key="sink.type",
        )
    try:
        factory: SinkFactory = found.load()
    except ModuleNotFoundError as cause:
        raise TerminalError(
            f"the {sink_type} sink needs the package {cause.name}, which is not installed here; install it wherever "
            f"tasks run, for a sink of icefloe as icefloe[{sink_type}]"
        ) from cause
    return factory(settings["options"], connection=connection, open_store=open_store)


def checked_options(kind: type[_Options], written: Mapping[str, object], *, sink_type: str) -> _Options:
    """The keys of ``sink`` besides ``type`` and ``conn_id`` as a dataclass of strict types."""
    # `written`: None stands for a missing key with that default.
    try:
        return TypeAdapter(kind).validate_python({name: each for name, each in written.items() if name != "conn_id"})
    except ValidationError as cause:
        first = cause.errors(include_input=False, include_url=False)[0]
        key = ".".join(["sink", *(str(part) for part in first["loc"])])
        fault = first["msg"].removeprefix("Value error, ")
        raise TerminalError(f"{key} does not fit the {sink_type} sink: {fault}; correct it", key=key) from None
