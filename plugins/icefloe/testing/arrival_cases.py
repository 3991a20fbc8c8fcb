"""Batches arrive in any order, repeatedly, are refused, or have other columns."""

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from operator import methodcaller
from typing import Any, Final

import pyarrow as pa
import pytest

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.sink import SupersededError
from icefloe.testing.processes import DeliveringProcess, OutwardCalls, error_at_end
from icefloe.testing.sink_under_test import SinkUnderTest, case, require_no_error, some_rows
from icefloe.testing.staged_history import (
    FLIGHTS,
    ORIGIN,
    OTHER,
    NotConformingError,
    Row,
    StagedBatch,
    StagedHistory,
    Step,
)

MIXED: Step = {0: {"word": "b", "number": 10}, 1: None, 4: {"word": "b"}, 20: {"word": "new"}}
"""An update, a delete, an update to null and an insert, over all parts of a batch."""
_ADDED: Final = pa.schema([*FLIGHTS, ("added", pa.string())])
_EVOLVED: Final[Mapping[str, tuple[pa.Schema, Row, Row]]] = {
    "a promoted column": (
        pa.schema([*FLIGHTS.remove(2), ("number", pa.int64())]), {}, {"word": "long", "number": 2**40}
    ),
    "an added column": (_ADDED, {}, {"word": "more", "added": "value"}),
    "an added column with an initial default": (_ADDED, {"added": "default"}, {"word": "more", "added": "value"}),
    "a column with the name of a dropped one": (FLIGHTS, {"number": None}, {"word": "more", "number": 5}),
}  # fmt: skip
"""Schemas, what they have ``new``, and a row of theirs."""
_PLAIN: Final[Mapping[pa.DataType, tuple[Any, Any]]] = {
    pa.bool_(): (True, False),
    pa.int32(): (-(2**31), 0),
    pa.int64(): (2**63 - 1, -1),
    pa.float32(): (0.5, -0.0),
    pa.float64(): (0.1, 1e300),
    pa.decimal128(38, 10): (Decimal("-1234567890123456789012345678.0000000001"), Decimal("0E-10")),
    pa.date32(): (date(1, 1, 1), date(9999, 12, 31)),
    pa.time64("us"): (time(23, 59, 59, 999999), time(0)),
    pa.timestamp("us"): (datetime(1969, 12, 31, 23, 59, 59, 1), datetime(2026, 3, 29, 2, 30)),
    pa.timestamp("us", "UTC"): (datetime(1969, 12, 31, 23, 59, 59, 1, UTC), datetime(2026, 3, 29, 2, 30, tzinfo=UTC)),
    pa.string(): ("null", ""),
    pa.binary(): (b"\0\xff", b""),
    pa.binary(3): (b"\0\xff\0", b"abc"),
}
"""Two values of each type."""


def _nested(*names: str) -> pa.Schema:
    """A table with structs of these texts: alone, in a list, in a map, and in another struct."""
    inner = pa.struct([(name, pa.string()) for name in names])
    kinds = {
        "at": inner, "legs": pa.list_(inner), "by": pa.map_(pa.string(), inner), "deep": pa.struct([("at", inner)])
    }  # fmt: skip
    return pa.schema([("id", pa.int64()), *kinds.items()])


def _structs(**texts: str | None) -> Row:
    return {"at": texts, "legs": [texts, None, texts], "by": [("k", texts), ("n", None)], "deep": {"at": texts}}


_PLACES: Final = ("at", "legs.element", "by.value", "deep.at")
RESHAPED: Final[Mapping[str, tuple[tuple[str, ...], Mapping[str, str], Mapping[str, None]]]] = {
    "in another order": (("to", "origin"), {}, {}),
    "with one more in front": (("more", "origin", "to"), {}, {}),
    "one of them dropped": (("to",), {}, {}),
    "their names swapped": (("to", "origin"), {"to": "origin", "origin": "to"}, {}),
    "one of them dropped and added again": (("origin", "to"), {}, {"to": None}),
}
"""Fields of structs that had an ``origin`` and a ``to``, names from before, and what is ``new``."""


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
        with case("a second load in two batches, which replaces everything"):
            self.deliver(destination, *history.load(some_rows(7, word="z"), batches=2))
            self.require(destination, history)
        with case("the batch after a second load"):
            self.deliver(destination, history.change({2: None, 50: {"word": "after"}}))
            self.require(destination, history)

    def test_everything_may_be_delivered_twice(self) -> None:
        history = StagedHistory()
        destination = self.new_destination()
        batches = [*history.load(some_rows(9), batches=2), history.change(MIXED)]
        for staged in batches:
            with case(f"batch {staged.batch.batch_number} delivered three times"):
                self.deliver(destination, staged, claims=True)
                self.deliver(destination, staged.backwards(), claims=True, repeats=True)
                # A worker that comes too late for the end of its batch.
                DeliveringProcess(self.opener(destination)).deliver(staged.backwards())
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
        for work in (methodcaller("run", old, repeats=True), methodcaller("deliver", old)):
            with case(f"a batch that is over is delivered again by {work}"):
                require_no_error(error_at_end(self.opener(destination), work), but=SupersededError)
                self.require(destination, history)
        with case("a batch that is over is replayed"):
            self.deliver(destination, old.replayed(), repeats=True)
            self.require(destination, history)

    def test_a_batch_that_a_restored_checkpoint_planned_again_is_an_error(self) -> None:
        history = StagedHistory()
        destination = self.begun(history)
        staged, later = history.change(MIXED), history.change({0: {"word": "c"}})
        self.deliver(destination, staged)
        longer = replace(staged.batch, up_to_snapshot_id=later.batch.up_to_snapshot_id)
        with case("a batch has the number of the last one, and goes further", expects=TerminalError):
            self.deliver(destination, StagedBatch(batch=longer, parts=staged.parts))
        self.deliver(destination, later)
        with case("the batch after the last one"):
            self.require(destination, history)
        first, _ = history.load(some_rows(7, word="z"), batches=2)
        self.deliver(destination, first)
        [whole] = history.load(some_rows(7, word="z"))
        number, up_to = first.batch.batch_number, first.batch.up_to_snapshot_id
        longer = replace(whole.batch, batch_number=number, up_to_snapshot_id=up_to)
        with case("a load in one batch has the number of its first part", expects=TerminalError):
            self.deliver(destination, StagedBatch(batch=longer, parts=whole.parts))

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

    def test_some_keys_can_be_read_back(self) -> None:
        history = StagedHistory()
        destination = self.begun(history)
        self.deliver(destination, history.change(MIXED))
        with case("read_back of the keys 0, 1, 20 and 99"):
            self.require(destination, history, ids={0, 1, 20, 99})

    def test_ranges_of_keys_can_be_read_back_as_of_a_batch_that_is_named(self) -> None:
        history = StagedHistory()
        destination = self.new_destination()
        loads, change = history.load(some_rows(9), batches=2), history.change(MIXED)
        with closing(self.open_sink(destination, OutwardCalls())) as sink:
            if not sink.reads_ranges:
                pytest.skip("the sink is read as a whole")
            sink.claim(ORIGIN)
            with case("an origin that has brought no batch"):
                found = [sink.last_batch(ORIGIN)]
            self.deliver(destination, loads[0])
            with case("a load that arrives", expects=TransientError):
                sink.last_batch(ORIGIN)
            self.deliver(destination, loads[1], change)
            with case("the last of three batches"):
                found.append(sink.last_batch(ORIGIN))
            if found != [None, change.batch.batch_number]:
                raise NotConformingError(f"last_batch gave {found}; expected [None, {change.batch.batch_number}]")
            with case("the last batch of another origin", expects=TerminalError):
                sink.last_batch(OTHER)
            for first, stop in ((None, None), (None, 4), (4, 20), (4, None)):
                batches = sink.read_range(history.shown, "id", first=first, stop=stop)
                rows = [row for batch in batches for row in batch.to_pylist()]
                wanted = [row for key, row in history.rows.items() if (first or 0) <= key < (stop or 99)]
                if sorted(rows, key=repr) != sorted(wanted, key=repr):
                    raise NotConformingError(f"the rows from {first} on, below {stop}, are {rows}; expected {wanted}")

    def test_a_check_leaves_nothing_behind(self) -> None:
        destination, history = self.new_destination(), StagedHistory()
        with closing(self.open_sink(destination, OutwardCalls())) as sink:
            with case("check and a look at a destination that nobody claimed"):
                sink.check()
                sink.claim(ORIGIN, only_looks=True)
                sink.check()
            with case("check at a destination that is in use"):
                self.deliver(destination, *history.load(some_rows(3)), claims=True)
                sink.check()
                self.require(destination, history)
                if "://" not in sink.url:
                    raise NotConformingError(f"url is {sink.url!r}; expected the destination as a URL, for people")


class RefusalCases(SinkUnderTest):
    """A refused row is taken later, is an error, or is counted as a dead letter."""

    def test_a_destination_that_refuses_for_ever_is_an_error(self) -> None:
        history = StagedHistory()
        destination = self.begun(history)
        staged = history.change(MIXED)
        process = DeliveringProcess(self.opener(destination))
        with self.refusing(destination) as is_refusing:
            if not is_refusing:
                pytest.skip("the destination never refuses for now")
            with case("a destination that refuses all requests until the sink's patience ends", expects=TransientError):
                process.run(staged)
        with case("a destination that refused all requests"):
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


class SchemaCases(SinkUnderTest):
    """A change of columns arrives, or is refused before anything is written."""

    @pytest.mark.parametrize("name", _EVOLVED)
    def test_another_schema_arrives_or_is_refused(self, name: str) -> None:
        schema, new, row = _EVOLVED[name]
        history, before = StagedHistory(), StagedHistory()
        destination = self.begun(history)
        before.load(some_rows(9))
        history.evolve(schema, new=new)
        staged = history.change({**MIXED, 3: row})
        with case(name), closing(self.open_sink(destination, OutwardCalls())) as sink:
            try:
                sink.begin(staged.batch)
            except TerminalError:
                self.require(destination, before)
                return
            self.deliver(destination, staged)
            self.require(destination, history)

    def test_values_of_every_type_arrive_or_are_refused(self) -> None:
        columns = [(f"c{place}", kind) for place, kind in enumerate(_PLAIN)]
        flat = [{name: pair[each] for (name, _), pair in zip(columns, _PLAIN.values(), strict=True)} for each in (0, 1)]
        full, other = {**flat[0], **_structs(origin="a", to="b")}, {**flat[1], **_structs(origin="b", to=None)}
        empty: Row = {"at": {"origin": None, "to": None}, "legs": [], "by": [], "deep": {"at": None}}
        history = StagedHistory(schema=pa.schema([*_nested("origin", "to"), *columns]))
        self._arrives_or_is_refused(
            history,
            history.load({0: {}, 1: full, 2: other, 3: full, 4: empty}),
            [history.change({0: full, 1: {}, 2: full, 3: empty, 4: {}}, {0: other})],
            [history.change({0: {}, 1: full, 2: None, 3: {}, 4: full, 5: other}, {5: None}, {5: empty})],
        )

    @pytest.mark.parametrize("name", RESHAPED)
    def test_other_fields_of_structs_arrive_or_are_refused(self, name: str) -> None:
        names, renamed, new = RESHAPED[name]
        history = StagedHistory(schema=_nested("origin", "to"))
        load = history.load({key: _structs(origin="a", to="b") for key in range(4)})
        history.evolve(
            _nested(*names),
            renamed={f"{place}.{each}": f"{place}.{was}" for place in _PLACES for each, was in renamed.items()},
            new={f"{place}.{each}": value for place in _PLACES for each, value in new.items()},
        )
        row = _structs(**{each: f"new {each}" for each in names})
        self._arrives_or_is_refused(history, load, [history.change({0: row, 1: None, 20: row})], ids={20})

    def test_a_key_inside_of_a_struct_arrives_or_is_refused(self) -> None:
        # A part of the key has the name of a column at the top, and the struct the name of a view.
        inner = pa.struct([("number", pa.int64()), ("id", pa.int64())])
        schema = pa.schema([("id", pa.int64()), ("changes", inner), ("word", pa.string())])
        history = StagedHistory(schema=schema, identity=("changes.id",))

        def row(key: int, word: str) -> Row:
            return {"changes": {"id": key, "number": 7}, "word": word}

        load = history.load({key: row(key, "a") for key in range(4)})
        changes = history.change({0: row(0, "b"), 1: None, 2: None, 9: row(9, "new")}, {0: row(0, "c"), 2: row(2, "d")})
        self._arrives_or_is_refused(history, load, [changes])

    def _arrives_or_is_refused(
        self, history: StagedHistory, load: list[StagedBatch], *others: list[StagedBatch], ids: Collection[int] = ()
    ) -> None:
        """Of a log only the changes of some rows are compared: those from before have other columns."""
        destination = self.new_destination()
        DeliveringProcess(self.opener(destination)).claim(ORIGIN)
        for batches in (load, *others):
            with closing(self.open_sink(destination, OutwardCalls())) as sink:
                try:
                    sink.begin(batches[0].batch)
                except TerminalError:
                    return
                with case(f"batch {batches[0].batch.batch_number}"):
                    self.deliver(destination, *batches)
                is_keyed = sink.keyed
        with case("the rows of all batches"):
            self.require(destination, history, ids=None if is_keyed or not ids else ids)

    def test_hidden_identity_columns_are_not_shown(self) -> None:
        history = StagedHistory(hidden=("id",))
        with case("an identity that the pipeline does not select"):
            destination = self.begun(history)
            self.deliver(destination, history.change(MIXED))
            self.require(destination, history)

    def test_rows_without_identity_arrive_in_a_log_and_are_refused_by_a_keyed_sink(self) -> None:
        history = StagedHistory(identity=())
        destination = self.new_destination()
        [load] = history.load(some_rows(4))
        with closing(self.open_sink(destination, OutwardCalls())) as sink:
            sink.claim(history.origin)
            with case("the begin of a batch without identity", expects=TerminalError if sink.keyed else None):
                sink.begin(load.batch)
        if not sink.keyed:
            with case("rows without identity"):
                self.deliver(destination, load, history.change({1: None, 9: {"word": "new"}}))
                self.require(destination, history)
