"""The suite that a sink must pass; processes die, lose a reply or wake up late, and origins change."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Final

import pyarrow as pa
import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.sinks.sink import SupersededError
from icefloe.testing.arrival_cases import MIXED, ArrivalCases, RefusalCases, SchemaCases
from icefloe.testing.processes import (
    DeliveringProcess,
    Fault,
    OutwardCalls,
    ProcessEndedError,
    StoppedProcess,
    error_at_end,
)
from icefloe.testing.sink_under_test import SinkUnderTest, case, require_error, some_rows
from icefloe.testing.staged_history import ORIGIN, NotConformingError, Row, StagedBatch, StagedHistory

_NEXT: Final = {0: None, 1: {"word": "next"}, 2: {"word": "next"}, 20: {"word": "next"}, 41: {"word": "next"}}
"""Changes what the batches before it changed, and more."""
_CLAIMING: Final = frozenset(["load", "first"])
"""The scenarios that begin at a destination which nobody has claimed."""
_FAULTS = [fault for fault in Fault if fault is not Fault.STOPPED]


SCENARIOS: Final[Mapping[str, Callable[[StagedHistory], list[StagedBatch]]]] = {
    "load": lambda history: history.load(some_rows(9), batches=2),
    "first": lambda history: [history.change({key: {"word": "a"} for key in range(9)})],
    "changes": lambda history: [history.change(MIXED, {0: {"word": "c"}, 7: None})],
    "reload": lambda history: history.load(some_rows(5, word="z"), batches=2),
}
"""The batches that are interrupted, by name; ``first`` is the first batch of a pipeline without a load."""


class InterruptionCases(SinkUnderTest):
    """Each case strikes every outward call of claim, begin, deliver and finish, which are counted first."""

    @pytest.mark.parametrize("scenario", SCENARIOS)
    @pytest.mark.parametrize("fault", _FAULTS)
    def test_a_process_that_fails_at_any_call_is_followed_by_another(self, scenario: str, fault: Fault) -> None:
        for place in self.places(self._count(scenario)):
            # The next try may know which parts are delivered, or may not.
            for knows in (True, False):
                destination, history, batches = self._prepared(scenario)
                calls = OutwardCalls(fault, place, lost_connection=self.lost_connection)
                failed = DeliveringProcess(self.opener(destination), calls)
                with case(f"{scenario}, {calls.where}"):
                    self._fail(failed, batches, claims=scenario in _CLAIMING)
                with case(f"{scenario}, {calls.where}, delivered again{' from the first part' if not knows else ''}"):
                    again = DeliveringProcess(self.opener(destination))
                    again.deliveries.update(failed.deliveries if knows else {})
                    again.run(*batches, claims=scenario in _CLAIMING)
                    self.require(destination, history)
                    self.deliver(destination, history.change(_NEXT))
                    self.require(destination, history)

    @pytest.mark.parametrize("scenario", SCENARIOS)
    @pytest.mark.parametrize("others", ["this batch", "the next batch too"])
    def test_a_process_that_wakes_up_late_changes_nothing(self, scenario: str, others: str) -> None:
        for place in self.places(self._count(scenario)):
            destination, history, batches = self._prepared(scenario)
            claims = scenario in _CLAIMING
            late = StoppedProcess(self.opener(destination), place, partial(_run, batches, claims=claims))
            is_stopped = late.is_stopped()
            with case(f"{scenario}, {late.calls.where} while others deliver {others}"):
                following = [history.change(_NEXT)] if others != "this batch" else []
                error = late.passed_by(partial(self.deliver, destination, *batches, *following, claims=claims))
                if error is not None and not isinstance(error, SupersededError | TransientError):
                    raise error
                self.require(destination, history)
                self.deliver(destination, history.change({2: None, 60: {"word": "last"}}))
                self.require(destination, history)
            if not is_stopped:
                break

    def test_a_process_that_wakes_up_after_another_died_leaves_nothing_out(self) -> None:
        calls = self._count("changes")
        for place, other_place in product(self.places(calls), self.places(calls)):
            destination, history, batches = self._prepared("changes")
            late = StoppedProcess(self.opener(destination), place, partial(_run, batches, claims=False))
            late.is_stopped()
            killed = OutwardCalls(Fault.KILLED_BEFORE, other_place)
            with case(f"changes, {late.calls.where} while another is {killed.where}"):
                self._fail(DeliveringProcess(self.opener(destination), killed), batches, claims=False)
                error = late.finish()
                if error is not None and not isinstance(error, SupersededError | TransientError):
                    raise error
                # Where the late process reports success, nobody delivers its batch again.
                self.deliver(destination, *batches)
                self.require(destination, history)

    def test_reading_back_while_a_load_replaces_everything_gives_the_rows_of_one_moment(self) -> None:
        """Of a keyed sink: changes that are read from a log while others arrive are those up to some of them."""
        calls = self._count_reading()
        for place in self.places(calls) if calls else ():
            history = StagedHistory()
            destination = self.begun(history)
            self.deliver(destination, history.change(MIXED))
            before, read = [*history.rows.values()], list[Row]()
            reader = StoppedProcess(
                self.opener(destination), place, partial(self._read, schema=history.shown, into=read)
            )
            reader.is_stopped()
            with case(f"reading back, {reader.calls.where} while others deliver a load"):
                error = reader.passed_by(partial(self.deliver, destination, *SCENARIOS["reload"](history)))
                if error is None:
                    _require_either(read, before, [*history.rows.values()])
                elif not isinstance(error, TransientError):
                    raise error
                self.require(destination, history)

    def _prepared(self, scenario: str) -> tuple[object, StagedHistory, list[StagedBatch]]:
        history = StagedHistory(first_batch_number=3 if scenario == "first" else 0)
        destination = self.new_destination() if scenario in _CLAIMING else self.begun(history)
        return destination, history, SCENARIOS[scenario](history)

    def _count(self, scenario: str) -> int:
        destination, _, batches = self._prepared(scenario)
        process = DeliveringProcess(self.opener(destination))
        process.run(*batches, claims=scenario in _CLAIMING)
        return len(process.calls.names)

    def _count_reading(self) -> int:
        history = StagedHistory()
        process = DeliveringProcess(self.opener(self.begun(history)))
        return len(process.calls.names) if process.read_back(history.shown) is not None else 0

    def _read(self, process: DeliveringProcess, *, schema: pa.Schema, into: list[Row]) -> None:
        into += process.read_back(schema) or []

    def _fail(self, process: DeliveringProcess, batches: list[StagedBatch], *, claims: bool) -> None:
        with suppress(ProcessEndedError, TransientError):
            process.run(*batches, claims=claims)


def _require_either(read: Sequence[Row], *states: Sequence[Row]) -> None:
    found, *expected = (sorted((tuple(row.items()) for row in rows), key=repr) for rows in (read, *states))
    if found not in expected:
        raise NotConformingError(
            f"the rows read are {read}; expected those before the load or those after it: {states}"
        )


def _run(batches: list[StagedBatch], process: DeliveringProcess, *, claims: bool) -> None:
    process.run(*batches, claims=claims)


OTHER: Origin = replace(ORIGIN, owner="0b5d4f0e-1111-4a6e-9d5b-000000000002", pipeline="other_changes")
_REFUSED = "TerminalError, because the destination is another origin's"


class OwnershipCases(SinkUnderTest):
    """A destination belongs to one origin at a time."""

    def test_another_origin_is_refused(self) -> None:
        history = StagedHistory()
        destination = self.begun(history)
        other = StagedHistory(origin=OTHER, first_batch_number=7)
        [load] = other.load(some_rows(4, word="other"))
        sink = self.open_sink(destination, OutwardCalls())
        for name, call in (
            ("a look", lambda: sink.claim(OTHER, only_looks=True)),
            ("claim", lambda: sink.claim(OTHER)),
            ("begin", lambda: sink.begin(load.batch)),
        ):
            with case(f"{name} by another origin"):
                require_error(TerminalError, call, _REFUSED)
        with case("the own origin claims once more"):
            sink.claim(ORIGIN, only_looks=True)
            sink.claim(ORIGIN)
        sink.close()
        self.deliver(destination, history.change(MIXED))
        with case("after another origin was refused"):
            self.require(destination, history)

    def test_a_claim_that_wakes_up_late_takes_nothing(self) -> None:
        probe = OutwardCalls()
        sink = self.open_sink(self.new_destination(), probe)
        sink.claim(ORIGIN)
        sink.close()
        for place in self.places(len(probe.names)):
            destination = self.new_destination()
            late = StoppedProcess(self.opener(destination), place, partial(self._claim, destination, OTHER))
            late.is_stopped()
            with case(f"a claim, {late.calls.where} while another origin claims"):
                errors: list[Exception | None] = []
                error = late.passed_by(partial(self._try_claim, destination, errors))
                if isinstance(error, TransientError):
                    error = error_at_end(self.opener(destination), partial(self._claim, destination, OTHER))
                self._require_one_owner(destination, [errors[-1], error])

    def test_a_destination_that_is_taken_over_belongs_to_the_new_origin(self) -> None:
        history = StagedHistory(first_batch_number=30)
        destination = self.begun(history)
        late = history.change(MIXED)
        other = StagedHistory(origin=OTHER)
        before = self.open_sink(destination, OutwardCalls())
        late.record(before.begin(late.batch))
        before.close()
        with case("the batches of an origin that took over"):
            # Its numbers begin again at 0, and still count as later ones.
            self._take_over(destination, other.load(some_rows(5, word="other")))
            self.deliver(destination, other.change({1: None, 9: {"word": "new"}}))
            self.require(destination, other)
        for name in ("run", "deliver"):
            with case(f"{name} by the origin before"):
                work = (lambda process: process.run(late)) if name == "run" else (lambda process: process.deliver(late))
                error = error_at_end(self.opener(destination), work)
                if error is not None and not isinstance(error, TerminalError):
                    raise error
                self.require(destination, other)

    def test_a_process_of_the_origin_before_that_wakes_up_late_changes_nothing(self) -> None:
        history = StagedHistory(first_batch_number=30)
        probe = DeliveringProcess(self.opener(self.begun(history)))
        probe.run(history.change(MIXED))
        for place in self.places(len(probe.calls.names)):
            history = StagedHistory(first_batch_number=30)
            destination = self.begun(history)
            staged = history.change(MIXED)
            late = StoppedProcess(self.opener(destination), place, partial(self._run_one, staged))
            late.is_stopped()
            other = StagedHistory(origin=OTHER)
            # All in one part: the other parts of the late process meet nobody of the new origin.
            load = other.load({key: {"word": "other"} for key in (0, 3, 6)})
            with case(f"changes, {late.calls.where} while another origin takes over"):
                error = late.passed_by(partial(self._take_over, destination, load))
                if error is not None and not isinstance(error, TerminalError | TransientError):
                    raise error
                self.require(destination, other)

    def _take_over(self, destination: object, load: list[StagedBatch]) -> None:
        sink = self.open_sink(destination, OutwardCalls())
        sink.claim(OTHER, takes_over=True)
        sink.claim(OTHER, takes_over=True)
        sink.close()
        self.deliver(destination, *load)

    def _run_one(self, staged: StagedBatch, process: DeliveringProcess) -> None:
        process.run(staged)

    def _claim(self, destination: object, origin: Origin, process: DeliveringProcess) -> None:
        sink = self.open_sink(destination, process.calls)
        sink.claim(origin)
        sink.close()

    def _try_claim(self, destination: object, errors: list[Exception | None]) -> None:
        try:
            self._claim(destination, ORIGIN, DeliveringProcess(self.opener(destination)))
        except TerminalError as error:
            errors.append(error)
        else:
            errors.append(None)

    def _require_one_owner(self, destination: object, errors: list[Exception | None]) -> None:
        for error in errors:
            if error is not None and not isinstance(error, TerminalError):
                raise error
        if sum(error is None for error in errors) != 1:
            raise NotConformingError(f"the claims ended with {errors}; expected one to count and one TerminalError")
        owner = (ORIGIN, OTHER)[[error is None for error in errors].index(True)]
        sink = self.open_sink(destination, OutwardCalls())
        sink.claim(owner, only_looks=True)
        sink.close()


class SinkConformance(ArrivalCases, InterruptionCases, OwnershipCases, RefusalCases, SchemaCases):
    """The contract of `icefloe.sinks.sink` as tests: a test class derives from it and opens its sink.

    A keyed sink is compared with the rows of the table, another one with the changes of each key in order.
    """
