"""Batches arrive, in every order of their parts, and nothing is there twice if they are delivered again."""

from itertools import permutations

from icefloe.sinks.sink import SupersededError
from icefloe.testing.held_content import require_some
from icefloe.testing.not_conforming import NotConformingError
from icefloe.testing.outward_calls import OutwardCalls
from icefloe.testing.processes import DeliveringProcess, run_at_once
from icefloe.testing.sink_under_test import SinkUnderTest, case, some_rows
from icefloe.testing.staged_history import ORIGIN, StagedHistory, Step

MIXED: Step = {0: {"word": "b", "number": 10}, 1: None, 4: {"word": "b"}, 20: {"word": "new"}}
"""An update, a delete, an update to null and an insert, over all parts of a batch."""


class ArrivalCases(SinkUnderTest):
    """Cases without faults."""

    def test_batches_arrive_one_after_the_other(self) -> None:
        history = StagedHistory()
        destination = self.begun(history)
        with case("the first load"):
            self.require(destination, history)
        for name, staged in (
            ("updates, deletes and inserts", history.change(MIXED)),
            ("an empty batch", history.change()),
            ("several commits that change one row", history.change({2: None}, {2: {"word": "c"}}, {2: {"word": "d"}})),
            ("a row that comes and goes", history.change({30: {"word": "e"}}, {30: None})),
            ("a row that returns to its old values", history.change({3: {"word": "f"}}, {3: some_rows(4)[3]})),
            ("a row whose key changes", history.change({5: None, 36: some_rows(6)[5]})),
            ("a deleted row that comes back", history.change({1: {"word": "back"}})),
        ):
            with case(name):
                self.deliver(destination, staged)
        with case("eight batches"):
            self.require(destination, history)

    def test_a_load_that_begins_anew_replaces_everything(self) -> None:
        history = StagedHistory()
        destination = self.begun(history)
        self.deliver(destination, history.change(MIXED))
        self.deliver(destination, *history.load(some_rows(7, word="z"), batches=2))
        with case("a second load in two batches"):
            self.require(destination, history)
        self.deliver(destination, history.change({2: None, 50: {"word": "after"}}))
        with case("the batch after a second load"):
            self.require(destination, history)

    def test_a_pipeline_without_a_load_arrives(self) -> None:
        history = StagedHistory(first_batch_number=3)
        destination = self.new_destination()
        self.deliver(destination, history.change({1: {"word": "a"}}), claims=True)
        self.deliver(destination, history.change({1: {"word": "b"}, 2: {"word": "c"}}))
        with case("batches without a load"):
            self.require(destination, history)

    def test_parts_may_come_in_any_order(self) -> None:
        for order in permutations(range(3)):
            history = StagedHistory()
            destination = self.begun(history)
            staged = history.change(MIXED)
            with case(f"parts in the order {order}"):
                self.deliver(destination, staged.in_order(*order))
                self.require(destination, history)

    def test_everything_may_be_delivered_twice(self) -> None:
        history = StagedHistory()
        destination = self.new_destination()
        batches = [*history.load(some_rows(9), batches=2), history.change(MIXED)]
        for staged in batches:
            sink = self.open_sink(destination, OutwardCalls())
            with case(f"batch {staged.batch.batch_number} delivered three times"):
                self.deliver(destination, staged, claims=True)
                sink.begin(staged.batch)
                self.deliver(destination, staged.backwards(), claims=True, repeats=True)
                # A worker that comes too late for the end of its batch.
                DeliveringProcess(self.opener(destination)).deliver(staged.backwards())
            sink.close()
        with case("three batches, each delivered three times"):
            self.require(destination, history)
        self.deliver(destination, history.change({2: {"word": "later"}}))
        with case("the batch after them"):
            self.require(destination, history)

    def test_a_batch_that_is_over_changes_nothing(self) -> None:
        history = StagedHistory()
        destination = self.begun(history)
        old = history.change(MIXED)
        self.deliver(destination, old)
        newer = history.change({0: {"word": "newer"}, 1: {"word": "back"}, 20: None}, {4: {"word": "newer"}})
        self.deliver(destination, newer)
        for name, work in (
            ("all of it", lambda process: process.run(old, repeats=True)),
            ("its parts only", lambda process: process.deliver(old)),
        ):
            with case(f"a batch that is over is delivered again, {name}"):
                [error] = run_at_once(self.opener(destination), [work])
                if error is not None and not isinstance(error, SupersededError):
                    raise error
                self.require(destination, history)
        with case("a batch that is over is replayed"):
            self.deliver(destination, old.replayed(), repeats=True)
            self.require(destination, history)

    def test_a_replay_from_before_a_later_load_brings_nothing_back(self) -> None:
        history = StagedHistory()
        destination = self.new_destination()
        older = [*history.load(some_rows(9)), history.change(MIXED), history.change({20: None, 8: {"word": "c"}})]
        self.deliver(destination, *older, claims=True)
        self.deliver(destination, *history.load(some_rows(7, word="z"), batches=2))
        for staged in older:
            with case(f"batch {staged.batch.batch_number}, from before a later load, is replayed"):
                self.deliver(destination, staged.replayed(), repeats=True)
                self.require(destination, history)
        self.deliver(destination, history.change({2: {"word": "later"}}))
        with case("the batch after replays from before its load"):
            self.require(destination, history)

    def test_two_workers_deliver_the_same_parts_at_once(self) -> None:
        history = StagedHistory()
        destination = self.begun(history, 60)
        staged = history.change({key: {"word": "b"} for key in range(0, 60, 2)}, dict.fromkeys(range(0, 60, 5)))
        with case("two processes deliver one batch at once"):
            errors = run_at_once(
                self.opener(destination),
                [
                    lambda process: process.run(staged, repeats=True),
                    lambda process: process.run(staged.backwards(), repeats=True),
                ],
            )
            for error in errors:
                if error is not None:
                    raise error
            self.require(destination, history)

    def test_some_keys_can_be_read_back(self) -> None:
        history = StagedHistory()
        destination = self.begun(history)
        self.deliver(destination, history.change(MIXED))
        sink = self.open_sink(destination, OutwardCalls())
        with case("read_back of the keys 0, 1, 20 and 99"):
            require_some(sink, history, {0, 1, 20, 99})
        sink.close()

    def test_a_check_leaves_nothing_behind(self) -> None:
        destination = self.new_destination()
        sink = self.open_sink(destination, OutwardCalls())
        with case("check and refuse_other_owner at a destination that nobody claimed"):
            sink.check()
            sink.refuse_other_owner(ORIGIN)
            sink.check()
        history = StagedHistory()
        self.deliver(destination, *history.load(some_rows(3)), claims=True)
        with case("check at a destination that is in use"):
            sink.check()
            self.require(destination, history)
            if not sink.url or "://" not in sink.url:
                raise NotConformingError(f"url is {sink.url!r}; expected the destination as a URL, for people")
        sink.close()
