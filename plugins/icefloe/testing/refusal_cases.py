"""Destinations that refuse: all requests for a while, or single rows for good."""

import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.testing.arrival_cases import MIXED
from icefloe.testing.not_conforming import NotConformingError
from icefloe.testing.processes import DeliveringProcess
from icefloe.testing.sink_under_test import SinkUnderTest, case, require_error
from icefloe.testing.staged_history import StagedHistory

_MOST_TRIES = 10


class RefusalCases(SinkUnderTest):
    """A refused row is taken later, is an error, or is counted as a dead letter."""

    @pytest.mark.parametrize("times", [1, 2, 5])
    def test_a_destination_that_refuses_for_a_while_gets_everything_later(self, times: int) -> None:
        history = StagedHistory()
        destination = self.begun(history)
        staged = history.change(MIXED)
        process = DeliveringProcess(self.opener(destination))
        with case(f"{times} refused requests"), self.refusing(destination, times) as is_refusing:
            if not is_refusing:
                pytest.skip("the destination never refuses for now")
            for _ in range(_MOST_TRIES):
                try:
                    process.run(staged)
                except TransientError:
                    continue
                break
            else:
                raise NotConformingError(f"nothing arrived in {_MOST_TRIES} tries; expected that refusals pass")
            self.require(destination, history)

    def test_a_destination_that_refuses_for_ever_is_an_error(self) -> None:
        history = StagedHistory()
        destination = self.begun(history)
        staged = history.change(MIXED)
        process = DeliveringProcess(self.opener(destination))
        with case("a destination that refuses all requests"):
            with self.refusing(destination, None) as is_refusing:
                if not is_refusing:
                    pytest.skip("the destination never refuses for now")
                require_error(TransientError, lambda: process.run(staged), "TransientError after the sink's patience")
            process.run(staged)
            self.require(destination, history)

    def test_rows_that_are_refused_for_good_are_counted_or_an_error(self) -> None:
        history = StagedHistory()
        destination = self.begun(history)
        poisons = {key: self.poison_row(key) for key in (40, 41)}
        if None in poisons.values():
            pytest.skip("the destination takes every row")
        staged = history.change({**MIXED, **poisons})
        with case("rows that the destination refuses for good"):
            for name in ("the first try", "the second try"):
                process = DeliveringProcess(self.opener(destination))
                try:
                    process.run(staged, repeats=True)
                except TerminalError:
                    continue
                counted = sum(each.dead_letters for each in process.deliveries.values())
                if counted != len(poisons):
                    raise NotConformingError(
                        f"{name} counted {counted} dead letters; expected {len(poisons)}, or a TerminalError"
                    )
                self.require(destination, history, without=poisons)
