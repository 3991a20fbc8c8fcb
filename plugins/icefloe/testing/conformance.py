"""The suite that a sink must pass; processes die, lose a reply or wake up late, and origins change."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import product
from operator import methodcaller
from typing import Final

import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.sinks.sink import SupersededError
from icefloe.testing.arrival_cases import MIXED, ArrivalCases, RefusalCases, SchemaCases
from icefloe.testing.processes import (
    DeliveringProcess,
    Fault,
    OpenSink,
    OutwardCalls,
    ProcessEndedError,
    StoppedProcess,
    error_at_end,
)
from icefloe.testing.sink_under_test import SinkUnderTest, case, require_no_error, some_rows
from icefloe.testing.staged_history import ORIGIN, OTHER, NotConformingError, Row, StagedBatch, StagedHistory

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
        claims = scenario in _CLAIMING
        for place in self.places(self._count(scenario)):
            # The next try may know which parts are delivered, or may not.
            for knows in (True, False):
                destination, history, batches = self._prepared(scenario)
                calls = OutwardCalls(fault, place, lost_connection=self.lost_connection)
                failed = DeliveringProcess(self.opener(destination), calls)
                with case(f"{scenario}, {calls.where}"):
                    _fail(failed, *batches, claims=claims)
                with case(f"{scenario}, {calls.where}, delivered again{' from the first part' if not knows else ''}"):
                    again = DeliveringProcess(self.opener(destination))
                    again.deliveries.update(failed.deliveries if knows else {})
                    again.run(*batches, claims=claims)
                    self.require(destination, history)
                    self.deliver(destination, history.change(_NEXT))
                    self.require(destination, history)

    @pytest.mark.parametrize("scenario", SCENARIOS)
    @pytest.mark.parametrize("others", ["this batch", "the next batch too"])
    def test_a_process_that_wakes_up_late_changes_nothing(self, scenario: str, others: str) -> None:
        claims = scenario in _CLAIMING
        for place in self.places(self._count(scenario)):
            destination, history, batches = self._prepared(scenario)
            late = StoppedProcess(self.opener(destination), place, methodcaller("run", *batches, claims=claims))
            with case(f"{scenario}, {late.calls.where} while others deliver {others}"):
                following = [history.change(_NEXT)] if others != "this batch" else []
                error = late.passed_by(partial(self.deliver, destination, *batches, *following, claims=claims))
                require_no_error(error, but=(SupersededError, TransientError))
                self.require(destination, history)
                self.deliver(destination, history.change({2: None, 60: {"word": "last"}}))
                self.require(destination, history)

    def test_a_process_that_wakes_up_after_another_died_leaves_nothing_out(self) -> None:
        calls = self._count("changes")
        for place, other_place in product(self.places(calls), self.places(calls)):
            destination, history, batches = self._prepared("changes")
            late = StoppedProcess(self.opener(destination), place, methodcaller("run", *batches))
            killed = DeliveringProcess(self.opener(destination), OutwardCalls(Fault.KILLED, other_place))
            with case(f"changes, {late.calls.where} while another is {killed.calls.where}"):
                error = late.passed_by(partial(_fail, killed, *batches))
                require_no_error(error, but=(SupersededError, TransientError))
                # Where the late process reports success, nobody delivers its batch again.
                self.deliver(destination, *batches)
                self.require(destination, history)

    def test_reading_back_while_a_load_replaces_everything_gives_the_rows_of_one_moment(self) -> None:
        """Of a keyed sink: changes that are read from a log while others arrive are those up to some of them."""
        read_back = methodcaller("read_back", StagedHistory().shown)
        probe = DeliveringProcess(self.opener(self.begun(StagedHistory())))
        for place in self.places(len(probe.calls.names)) if read_back(probe) is not None else ():
            history = StagedHistory()
            destination = self.begun(history)
            self.deliver(destination, history.change(MIXED))
            before = [*history.rows.values()]
            reader = StoppedProcess(self.opener(destination), place, read_back)
            with case(f"reading back, {reader.calls.where} while others deliver a load"):
                error = reader.passed_by(partial(self.deliver, destination, *SCENARIOS["reload"](history)))
                require_no_error(error, but=TransientError)
                if error is None:
                    _require_either(reader.end.result(), before, [*history.rows.values()])
                self.require(destination, history)

    def _prepared(self, scenario: str) -> tuple[object, StagedHistory, list[StagedBatch]]:
        history = StagedHistory(next_number=3 if scenario == "first" else 0)
        destination = self.new_destination() if scenario in _CLAIMING else self.begun(history)
        return destination, history, SCENARIOS[scenario](history)

    def _count(self, scenario: str) -> int:
        destination, _, batches = self._prepared(scenario)
        process = DeliveringProcess(self.opener(destination))
        process.run(*batches, claims=scenario in _CLAIMING)
        return len(process.calls.names)


def _fail(process: DeliveringProcess, *batches: StagedBatch, claims: bool = False) -> None:
    with suppress(ProcessEndedError, TransientError):
        process.run(*batches, claims=claims)


def _require_either(read: Sequence[Row], *states: Sequence[Row]) -> None:
    found, *expected = (sorted((tuple(row.items()) for row in rows), key=repr) for rows in (read, *states))
    if found not in expected:
        raise NotConformingError(
            f"the rows read are {read}; expected those before the load or those after it: {states}"
        )


class OwnershipCases(SinkUnderTest):
    """A destination belongs to one origin at a time."""

    def test_another_origin_is_refused(self) -> None:
        history = StagedHistory()
        destination = self.begun(history)
        [load] = StagedHistory(origin=OTHER, next_number=7).load(some_rows(4, word="other"))
        with closing(self.open_sink(destination, OutwardCalls())) as sink:
            with case("a look by another origin", expects=TerminalError):
                sink.claim(OTHER, only_looks=True)
            with case("claim by another origin", expects=TerminalError):
                sink.claim(OTHER)
            with case("begin by another origin", expects=TerminalError):
                sink.begin(load.batch)
            with case("the own origin claims once more"):
                sink.claim(ORIGIN, only_looks=True)
                sink.claim(ORIGIN)
        with case("after another origin was refused"):
            self.deliver(destination, history.change(MIXED))
            self.require(destination, history)

    def test_a_claim_that_wakes_up_late_takes_nothing(self) -> None:
        probe, claim = DeliveringProcess(self.opener(self.new_destination())), methodcaller("claim", OTHER)
        claim(probe)
        for place in self.places(len(probe.calls.names)):
            opener, counted = self.opener(self.new_destination()), list[Origin]()
            late = StoppedProcess(opener, place, claim)
            with case(f"a claim, {late.calls.where} while another origin claims"):
                error = late.passed_by(partial(_try_to_claim, opener, counted))
                if isinstance(error, TransientError):
                    error = error_at_end(opener, claim)
                require_no_error(error, but=TerminalError)
                counted += [OTHER] if error is None else []
                if len(counted) != 1:
                    raise NotConformingError(f"the claims of {counted} count; expected one of two")
                DeliveringProcess(opener).claim(*counted, only_looks=True)

    def test_a_destination_that_is_taken_over_belongs_to_the_new_origin(self) -> None:
        history, other = StagedHistory(next_number=30), StagedHistory(origin=OTHER)
        destination = self.begun(history)
        late = history.change(MIXED)
        with closing(self.open_sink(destination, OutwardCalls())) as before:
            late.record(before.begin(late.batch))
        with case("the batches of an origin that took over"):
            # Its numbers begin again at 0, and still count as later ones.
            self._take_over(destination, other.load(some_rows(5, word="other")))
            self.deliver(destination, other.change({1: None, 9: {"word": "new"}}))
            self.require(destination, other)
        for work in (methodcaller("run", late), methodcaller("deliver", late)):
            with case(f"{work} by the origin before"):
                require_no_error(error_at_end(self.opener(destination), work), but=TerminalError)
                self.require(destination, other)

    def test_a_process_of_the_origin_before_that_wakes_up_late_changes_nothing(self) -> None:
        history = StagedHistory(next_number=30)
        probe = DeliveringProcess(self.opener(self.begun(history)))
        probe.run(history.change(MIXED))
        for place in self.places(len(probe.calls.names)):
            history, other = StagedHistory(next_number=30), StagedHistory(origin=OTHER)
            destination = self.begun(history)
            late = StoppedProcess(self.opener(destination), place, methodcaller("run", history.change(MIXED)))
            # All in one part: the other parts of the late process meet nobody of the new origin.
            load = other.load({key: {"word": "other"} for key in (0, 3, 6)})
            with case(f"changes, {late.calls.where} while another origin takes over"):
                error = late.passed_by(partial(self._take_over, destination, load))
                require_no_error(error, but=(TerminalError, TransientError))
                self.require(destination, other)

    def _take_over(self, destination: object, load: list[StagedBatch]) -> None:
        process = DeliveringProcess(self.opener(destination))
        process.claim(OTHER, takes_over=True)
        process.claim(OTHER, takes_over=True)
        self.deliver(destination, *load)


def _try_to_claim(opener: OpenSink, counted: list[Origin]) -> None:
    with suppress(TerminalError):
        DeliveringProcess(opener).claim(ORIGIN)
        counted.append(ORIGIN)


class SinkConformance(ArrivalCases, InterruptionCases, OwnershipCases, RefusalCases, SchemaCases):
    """The contract of `icefloe.sinks.sink` as tests: a test class derives from it and opens its sink.

    A keyed sink is compared with the rows of the table, another one with the changes of each key in order.
    """
