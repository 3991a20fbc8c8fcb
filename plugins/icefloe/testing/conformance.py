"""The suite that a sink must pass."""

from dataclasses import replace
from functools import partial

import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import Origin
from icefloe.testing.arrival_cases import MIXED, ArrivalCases, RefusalCases, SchemaCases
from icefloe.testing.interruption_cases import InterruptionCases, RandomCases
from icefloe.testing.processes import DeliveringProcess, OutwardCalls, StoppedProcess, run_at_once
from icefloe.testing.sink_under_test import SinkUnderTest, case, require_error, some_rows
from icefloe.testing.staged_history import ORIGIN, NotConformingError, StagedBatch, StagedHistory

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

    def test_one_of_two_claims_at_once_counts(self) -> None:
        for _ in range(5):
            destination = self.new_destination()
            with case("two origins claim one destination at once"):
                errors = run_at_once(
                    self.opener(destination), [partial(self._claim, destination, origin) for origin in (ORIGIN, OTHER)]
                )
                self._require_one_owner(destination, errors)

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
                    [error] = run_at_once(self.opener(destination), [partial(self._claim, destination, OTHER)])
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
                [error] = run_at_once(self.opener(destination), [work])
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

    @pytest.mark.parametrize("moment", ["begin", "deliver", "finish"])
    def test_a_foreign_writer_in_between_harms_nothing(self, moment: str) -> None:
        history = StagedHistory()
        destination = self.begun(history)
        if not self.foreign_write(destination, 0):
            pytest.skip("this destination has one writer")
        staged = history.change(MIXED)
        driver = self.open_sink(destination, OutwardCalls())
        process = DeliveringProcess(self.opener(destination))
        with case(f"a foreign write before {moment}"):
            for number, step in enumerate(("begin", "deliver", "finish"), start=1):
                if step == moment:
                    self.foreign_write(destination, number)
                if step == "begin":
                    staged.record(driver.begin(staged.batch))
                elif step == "deliver":
                    process.deliver(staged)
                else:
                    driver.finish(staged.batch, staged.begun, process.results(staged))
            self.deliver(destination, staged, repeats=True)
            self.deliver(destination, history.change({2: {"word": "last"}}))
            self.require(destination, history, among={*range(60)})
        driver.close()

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


class SinkConformance(ArrivalCases, InterruptionCases, OwnershipCases, RefusalCases, SchemaCases, RandomCases):
    """The contract of `icefloe.sinks.sink` as tests: a test class derives from it and opens its sink.

    A keyed sink is compared with the rows of the table, another one with the changes of each key in order.
    """
