"""Random histories with random faults, compared with the table after every batch."""

from functools import partial
from random import Random

import pytest

from icefloe.errors import TransientError
from icefloe.sinks.sink import SupersededError
from icefloe.testing.outward_calls import Fault, OutwardCalls, ProcessEndedError
from icefloe.testing.processes import DeliveringProcess, StoppedProcess
from icefloe.testing.sink_under_test import SinkUnderTest, case
from icefloe.testing.staged_history import Row, StagedBatch, StagedHistory, Step

_BATCHES = 8
_KEYS = 12
_FAULTS = [fault for fault in Fault if fault is not Fault.STOPPED]


class RandomCases(SinkUnderTest):
    """A seed decides on the rows, the faults, and when a process that was stopped wakes up."""

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
        """Tries that fail, then one that does not. A stopped process that holds a lock ends before it."""
        for _ in range(random.randrange(3)):
            calls = OutwardCalls(random.choice(_FAULTS), random.randrange(15), lost_connection=self.lost_connection)
            try:
                _run(batches, DeliveringProcess(self.opener(destination), calls))
            except (ProcessEndedError, TransientError):
                continue
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


def _run(batches: list[StagedBatch], process: DeliveringProcess) -> None:
    process.run(*batches, claims=True)


def _row(random: Random) -> Row:
    return {"word": random.choice(["a", "b", None]), "number": random.randrange(3)}


def _step(random: Random) -> Step:
    keys = random.sample(range(_KEYS), random.randint(1, 5))
    return {key: None if random.random() < 1 / 3 else _row(random) for key in keys}
