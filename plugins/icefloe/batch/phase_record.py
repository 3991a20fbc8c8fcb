"""``phases/<phase>.json``: attempts, time and figures of a phase, and the outcomes of its tasks."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Final, Literal, NamedTuple, Protocol, TypeVar

from icefloe.batch.plan_document import phase_key
from icefloe.documents import LEFT_OUT_IF_EMPTY, Document, dump_document, load_document
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.flow import WORKING_TASKS, FlowTask, Route
from icefloe.shuffle.committed_output import CorruptMapOutputError
from icefloe.storage.requests import Requests, RequestTotals
from icefloe.storage.store import KeyMissingError, Store

__all__ = ["Engine", "PhaseRecord", "TrackedApplication", "load_phases"]

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")

PHASES: Final = WORKING_TASKS[: WORKING_TASKS.index(FlowTask.COMMIT)]
"""The tasks that leave a record; commit writes the report instead."""


class Engine(Protocol):
    """Hands numbers to a function in processes or threads."""

    def map(self, function: Callable[[int], _Result], numbers: Sequence[int]) -> list[_Result]:
        """Results in the order of ``numbers``; begins with the first."""
        ...


class TaskOutcome(NamedTuple):
    """The outcome of a task, with its error as a value: an engine would turn it into text."""

    error: IcefloeError | None = None
    is_adopted: bool = False
    requests: RequestTotals = RequestTotals()


def require_success(errors: Iterable[IcefloeError]) -> None:
    """An error that retrying cannot fix comes first."""
    for error in sorted(errors, key=lambda error: isinstance(error, TransientError)):
        raise error


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNode(Document):
    """A node that was away, or that lost or changed a map output."""

    address: str
    map_outputs: int  # made again, in the storage
    reason: str

    @property
    def sentence(self) -> str:
        """A warning for the report of the batch.

        >>> LostNode(address="worker-1:4995", map_outputs=3, reason="it does not answer: no route").sentence
        'map outputs of node worker-1:4995 were made again in the storage, 3 in all: it does not answer: no route'
        """
        return (
            f"map outputs of node {self.address} were made again in the storage, {self.map_outputs:,} in all: "
            f"{self.reason}"
        )


def lost_nodes(damaged: Iterable[CorruptMapOutputError]) -> tuple[LostNode, ...]:
    """Lost nodes by address. Each map output counts once."""
    nodes = [node for damage in damaged for node in damage.nodes or ()]
    outputs = {address: set[tuple[int, int]]() for address in sorted({node.address for node in nodes})}
    for node in nodes:
        outputs[node.address].update(node.outputs)
    reasons = {node.address: node.reason for node in reversed(nodes)}
    return tuple(
        LostNode(address=address, map_outputs=len(found), reason=reasons[address]) for address, found in outputs.items()
    )


def spare_busy_nodes(damaged: Sequence[CorruptMapOutputError], refusals: Counter[str]) -> None:
    """Nodes that were busy for one task only are asked once more: the damage names them no longer."""
    refusals.update(node.address for each in damaged for node in each.nodes or () if node.is_busy)
    for each in damaged:
        if each.nodes is not None:
            each.nodes = tuple(node for node in each.nodes if not node.is_busy or refusals[node.address] > 1)


def merged_nodes(nodes: Iterable[LostNode]) -> tuple[LostNode, ...]:
    """Each node once, with all its map outputs and the first of its reasons."""
    found: dict[str, LostNode] = {}
    for node in nodes:
        known = found.get(node.address)
        found[node.address] = (
            node if known is None else replace(known, map_outputs=known.map_outputs + node.map_outputs)
        )
    return tuple(found[address] for address in sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongRows(Document):
    """The rows that the query of a check returned.

    Attributes:
        samples: the first of them as text; null stays null, and of a long text the beginning counts.
        error: why the query did not end, in DuckDB's words, which may quote values; None: it ended.
    """

    rows: int = 0
    samples: tuple[Mapping[str, str | None], ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult(WrongRows):
    """A check of a batch; ``digest`` is of the check and of the changes that it saw."""

    name: str
    outcome: Literal["passed", "failed", "warned"]
    digest: str

    @classmethod
    def of(cls, name: str, found: WrongRows, *, digest: str, stops: bool) -> "CheckResult":
        """The result of a check, which fails or warns."""
        is_wrong = found.rows > 0 or found.error is not None
        outcome: Literal["failed", "warned"] = "failed" if stops else "warned"
        return cls(name=name, outcome=outcome if is_wrong else "passed", digest=digest, **asdict(found))

    @property
    def sentence(self) -> str:
        """The result without a value of any row."""
        rows = f"{self.rows:,} wrong {'row' if self.rows == 1 else 'rows'}"
        return f"check {self.name} " + (f"found {rows}" if self.error is None else "did not end")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedApplication:
    """The Spark application that runs an attempt of a phase.

    Attributes:
        ui: URL of its web page while it runs; None if the page is switched off.
    """

    id: str
    ui: str | None = None


@dataclass(slots=True, kw_only=True)
class PhaseRecord(Document):
    """One phase of a batch over all its attempts (docs/developers/formats.md). Losing it costs no more than work."""

    version: Literal[1] = 1
    phase: str
    attempts: int = 0
    attempts_lost: int = 0  # without a recorded end; their seconds are in no sum
    is_running: bool = False
    seconds: float = 0.0
    tasks_found: int = 0
    tasks_run: int = 0  # handed to the engine; a task that was done again counts each time
    tasks_failed: int = 0
    tasks_adopted: int = 0
    map_tasks_run_again: int = 0
    map_outputs_void: int = 0
    map_outputs_missing: int = 0
    requests: RequestTotals = field(default_factory=RequestTotals)
    spark_application_id: str | None = None
    spark_ui: str | None = None
    nodes_lost: Annotated[tuple[LostNode, ...], LEFT_OUT_IF_EMPTY] = ()
    checks: Annotated[tuple[CheckResult, ...], LEFT_OUT_IF_EMPTY] = ()


@dataclass(slots=True, kw_only=True)
class PhaseTally:
    """The record of a phase, to which the driver of an attempt adds."""

    record: PhaseRecord
    store: Store | None = None  # keeps the record; None: the record goes elsewhere
    is_first: bool = False  # no earlier attempt is recorded; a wrong True only costs tasks that run twice and adopt
    started: float = field(default_factory=time.monotonic)
    refusals: Counter[str] = field(default_factory=Counter)  # tasks by address that waited in vain for a busy node

    @classmethod
    def of(cls, phase: str) -> "PhaseTally":
        """The tally of an attempt that nothing is known before."""
        return cls(record=PhaseRecord(phase=phase, attempts=1))

    @contextmanager
    def counting(self, requests: Requests) -> Iterator[None]:
        """Counts the requests made to stores inside."""
        try:
            yield
        finally:
            self.record.requests += requests.taken()

    def begin(self, missing: int, *, of: int) -> None:
        """Counts tasks before an engine gets them, and those already done."""
        self.record.tasks_found += of - missing
        self.record.tasks_run += missing

    def finish(self, outcomes: Sequence[TaskOutcome]) -> list[IcefloeError]:
        """Counts the outcomes of an engine; returns the errors."""
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        self.record.tasks_failed += len(errors)
        self.record.tasks_adopted += sum(outcome.is_adopted for outcome in outcomes)
        self.record.requests = sum((outcome.requests for outcome in outcomes), self.record.requests)
        return errors

    def lose_nodes(self, damaged: Sequence[CorruptMapOutputError]) -> None:
        """Records lost nodes at once: their outputs take time to make. See `spare_busy_nodes`."""
        spare_busy_nodes(damaged, self.refusals)
        lost = lost_nodes(damaged)
        for node in lost:
            logger.warning("node_lost address=%s map_outputs=%d reason=%s", node.address, node.map_outputs, node.reason)
        self.record.nodes_lost = merged_nodes((*self.record.nodes_lost, *lost))
        if lost:
            self.keep()

    def ended(self) -> PhaseRecord:
        """The record with the time of this attempt, which is kept."""
        self.record.is_running = False
        self.record.seconds += time.monotonic() - self.started
        self.keep()
        return self.record

    def keep(self) -> None:
        """Stores the record as it is now. The last writer wins."""
        if self.store is not None:
            _put(self.store, self.record)


@contextmanager
def recorded_phase(store: Store, phase: str, *, application: TrackedApplication | None = None) -> Iterator[PhaseTally]:
    """Records an attempt as it begins and, unless it failed for good, as it ends."""
    record = load_phase(store, phase) or PhaseRecord(phase=phase)
    tally = PhaseTally(record=record, store=store, is_first=record.attempts == 0)
    record.attempts += 1
    record.attempts_lost += record.is_running
    record.is_running = True
    record.spark_application_id = None if application is None else application.id
    record.spark_ui = None if application is None else application.ui
    tally.keep()
    try:
        yield tally
    except TerminalError:
        # Perhaps a zombie of a batch whose folder is deleted by now: it must not leave a file there.
        raise
    except (Exception, KeyboardInterrupt):
        # Not after the time limit of a task: perhaps the store hangs. The next attempt finds this one without an end.
        if (stored := load_phase(store, phase)) is not None:
            # Perhaps of an attempt that has checked the batch meanwhile. This one has no results that it did not store.
            record.checks = stored.checks
        tally.ended()
        raise
    tally.ended()


def load_phases(store: Store, route: Route | None = None, then: Iterable[FlowTask] = ()) -> tuple[PhaseRecord, ...]:
    """The records of a route that exist, in the order of the DAG; None: of any route."""
    tasks = PHASES if route is None else (FlowTask.PLAN, *route.tasks(then))
    found = (load_phase(store, task) for task in tasks if task in PHASES)
    return tuple(record for record in found if record is not None)


def load_phase(store: Store, phase: str) -> PhaseRecord | None:
    """The record of a phase; None if there is none, or a damaged one."""
    key = phase_key(phase)
    try:
        return load_document(PhaseRecord, store.get(key), what=f"the phase record {store.url}/{key}")
    except KeyMissingError:
        return None
    except IcefloeError as error:
        logger.warning("%s; it is counted from scratch", error.sentence)
        return None


def _put(store: Store, record: PhaseRecord) -> None:
    try:
        store.put(phase_key(record.phase), dump_document(record))
    except IcefloeError as error:
        logger.warning("the times of %s are not recorded: %s", record.phase, error.sentence)
