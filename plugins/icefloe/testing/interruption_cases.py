"""Processes that die, lose a reply or wake up late."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from random import Random
from typing import Final

import pyarrow as pa
import pytest

from icefloe.errors import TransientError
from icefloe.sinks.sink import SupersededError
from icefloe.testing.arrival_cases import MIXED
from icefloe.testing.processes import DeliveringProcess, Fault, OutwardCalls, ProcessEndedError, StoppedProcess
from icefloe.testing.sink_under_test import SinkUnderTest, case, some_rows
from icefloe.testing.staged_history import NotConformingError, Row, StagedBatch, StagedHistory, Step

_NEXT: Final = {0: None, 1: {"word": "next"}, 2: {"word": "next"}, 20: {"word": "next"}, 41: {"word": "next"}}
"""Changes what the batches before it changed, and more."""
_CLAIMING: Final = frozenset(["load", "first"])
"""The scenarios that begin at a destination which nobody has claimed."""
_BATCHES = 8
_KEYS = 12
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


class RandomCases(SinkUnderTest):
    """A seed decides on rows, faults, and when a stopped process wakes up."""

    @pytest.mark.parametrize("seed", range(5))
    def test_a_random_history_arrives(self, seed: int) -> None:
        random = Random(seed)  # noqa: S311 - the same history at each run
        history = StagedHistory()
        destination = self.new_destination()
        stopped: list[StoppedProcess] = []
        for number in range(_BATCHES):
            batches = self._batches(history, random, is_first=number == 0)
            with case(f"seed {seed}, batch {batches[-1].batch.batch_number}"):
                if random.random() < 1 / 2:
                    stopped.append(self._stopped(destination, batches, random))
                self._deliver(destination, batches, random, stopped)
                self.require(destination, history)
                while stopped and random.random() < 1 / 3:
                    self._wake(stopped.pop(0))
                    self.require(destination, history)
        for late in stopped:
            with case(f"seed {seed}, {late.calls.where}, after all batches"):
                self._wake(late)
                self.require(destination, history)

    def _batches(self, history: StagedHistory, random: Random, *, is_first: bool) -> list[StagedBatch]:
        if is_first or random.random() < 1 / 6:
            rows: dict[int, Row] = {key: _row(random) for key in range(_KEYS) if random.random() < 1 / 2}
            return history.load(rows, batches=random.randint(1, 2))
        return [history.change(*(_step(random) for _ in range(random.randint(0, 3))))]

    def _stopped(self, destination: object, batches: list[StagedBatch], random: Random) -> StoppedProcess:
        late = StoppedProcess(self.opener(destination), random.randrange(15), partial(_run, batches))
        late.is_stopped()
        return late

    def _deliver(
        self, destination: object, batches: list[StagedBatch], random: Random, stopped: list[StoppedProcess]
    ) -> None:
        """Tries that fail, then one that does not. A stopped process with a lock ends first."""
        for _ in range(random.randrange(3)):
            calls = OutwardCalls(random.choice(_FAULTS), random.randrange(15), lost_connection=self.lost_connection)
            with suppress(ProcessEndedError, TransientError):
                _run(batches, DeliveringProcess(self.opener(destination), calls))
        try:
            self.deliver(destination, *batches, claims=True)
        except TransientError:
            while stopped:
                self._wake(stopped.pop(0))
            self.deliver(destination, *batches, claims=True)

    def _wake(self, late: StoppedProcess) -> None:
        error = late.finish()
        if error is not None and not isinstance(error, SupersededError | TransientError):
            raise error


def _run(batches: list[StagedBatch], process: DeliveringProcess, *, claims: bool = True) -> None:
    process.run(*batches, claims=claims)


def _row(random: Random) -> Row:
    return {"word": random.choice(["a", "b", None]), "number": random.randrange(3)}


def _step(random: Random) -> Step:
    keys = random.sample(range(_KEYS), random.randint(1, 5))
    return {key: None if random.random() < 1 / 3 else _row(random) for key in keys}
