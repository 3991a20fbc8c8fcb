"""Random histories of a table whose columns change, and their batches: cut at random, by processes that die."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from operator import methodcaller
from random import Random
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pytest

from icefloe.errors import TransientError
from icefloe.testing.processes import (
    DeliveringProcess,
    Fault,
    OpenSink,
    OutwardCalls,
    ProcessEndedError,
    StoppedProcess,
)
from icefloe.testing.sink_under_test import require_no_error
from icefloe.testing.staged_history import ORIGIN, StagedBatch, StagedHistory

__all__ = ["Cut", "RandomHistory", "instants", "schema_of", "seeds", "shown"]

SEEDS: Final = "ICEFLOE_SEEDS"
"""A range such as 0:1000, in place of the seeds of `make test` and `make extended`."""
IDS: Final = 7
CODES: Final = ("", "2", "2,", ",", ":2", "1:2")
"""With ids such as 1 and 12 they make keys that concatenate alike."""
WORDS: Final = (None, "", "a", "ab", "null")
NAMES: Final = ("word", "Word", "number", "x", "X", "at", "to", "x.y")
FIELDS: Final = ("a", "b", "A", "a.b")
KINDS: Final = ("word", "number", "at", "legs", "by")
START_MS: Final = 1_767_225_600_000
Values: TypeAlias = dict[int, Any]
"""A row without its id: values by number of the column. Structs are pairs."""
Path: TypeAlias = tuple[int | str, ...]


def seeds(few: int, many: int) -> list[Any]:
    """The seeds of a test: few in `make test`, many in `make extended`."""
    if chosen := os.environ.get(SEEDS):
        return [*range(*map(int, chosen.split(":")))]
    return [*range(few), *(pytest.param(seed, marks=pytest.mark.extended) for seed in range(few, many))]


@dataclass(frozen=True)
class Column:
    """A column, which keeps its number whatever it is called.

    Attributes:
        fields: names of the two fields of its structs.
    """

    number: int
    name: str
    kind: str
    fields: tuple[str, str] = ("a", "b")

    @property
    def type(self) -> pa.DataType:
        inner = pa.struct([(name, pa.string()) for name in self.fields])
        kinds = {
            "word": pa.string(), "number": pa.int32(), "long": pa.int64(),
            "at": inner, "legs": pa.list_(inner), "by": pa.map_(pa.string(), inner),
        }  # fmt: skip
        return kinds[self.kind]

    def paths(self) -> Iterator[tuple[Path, str]]:
        """Dotted names of the column and what is inside, by what stays the same."""
        inside = {"at": "", "legs": ".element", "by": ".value"}
        yield (self.number,), self.name
        if self.kind in inside:
            if self.kind != "at":
                yield (self.number, "inside"), f"{self.name}{inside[self.kind]}"
            if self.kind == "by":
                yield (self.number, "key"), f"{self.name}.key"
            for place, name in enumerate(self.fields):
                yield (self.number, "field", place), f"{self.name}{inside[self.kind]}.{name}"

    def value(self, random: Random) -> Any:
        if self.kind == "word":
            return random.choice(WORDS)
        if self.kind in ("number", "long"):
            return random.choice([None, 0, 1, 2**40 if self.kind == "long" else 2])
        pair = random.choice([None, (None, None), ("x", "y"), ("y", "x"), ("x", None)])
        some = random.choice([None, [], [pair], [pair, None, ("x", "y")]])
        return pair if self.kind == "at" else some

    def shown(self, value: Any) -> Any:
        if value is None or self.kind in ("word", "number", "long"):
            return value
        if self.kind == "at":
            return dict(zip(self.fields, value, strict=True))
        structs = [None if pair is None else dict(zip(self.fields, pair, strict=True)) for pair in value]
        return structs if self.kind == "legs" else [*zip(("k", "l", "m"), structs, strict=False)]


@dataclass(frozen=True)
class Event:
    """A commit of rows, a load of all rows, or other columns; ``rows`` are those that it sets."""

    rows: dict[int, Values | None] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    is_load: bool = False


FIRST: Final = (
    Column(0, "code", "word"),
    Column(1, "word", "word"),
    Column(2, "number", "number"),
    Column(3, "at", "at"),
)


@dataclass
class RandomHistory:
    """The events of one seed.

    Attributes:
        times_ms: when each commit and each load became current; clocks go back.
        states: the rows after each of them.
        events: begin with a load.
    """

    random: Random
    has_schema_changes: bool = True
    has_nested_renames: bool = True
    is_keyed_by_code: bool = False
    drops: bool = True
    events: list[Event] = field(default_factory=list)
    states: list[dict[int, Values]] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)
    columns: tuple[Column, ...] = FIRST

    def __post_init__(self) -> None:
        self._numbers = len(FIRST)
        self._former: list[Values] = []
        for place in range(self.random.randrange(8, 16)):
            self._add(place)

    @property
    def identity(self) -> tuple[str, ...]:
        return ("id", "code") if self.is_keyed_by_code else ("id",)

    def _add(self, place: int) -> None:
        random = self.random
        if not place or random.random() < 0.06:
            rows = {key: self._row() for key in random.sample(range(13), random.randrange(4, IDS + 1))}
            if place:
                # What was missed since, and rows that stayed.
                rows = {**self.states[-1], **dict(random.sample(sorted(rows.items()), 2))}
                rows = {key: rows[key] for key in sorted(rows) if random.random() < 0.9}
            self._note(Event(rows=dict(rows), is_load=True), rows)
        elif self.has_schema_changes and random.random() < 0.25:
            self.columns = self._changed()
            self.events.append(Event(columns=self.columns))
        elif random.random() < 0.15:
            # Insert, update, delete and insert of one key, the last time perhaps as it was.
            key = random.randrange(13)
            row = self._row()
            for values in (row, self._row(), None, row):
                self._step({key: values})
        else:
            self._step({key: self._new_row() for key in random.sample(range(13), random.randrange(1, 4))})

    def _step(self, rows: dict[int, Values | None]) -> None:
        state = dict(self.states[-1])
        for key, values in rows.items():
            if values is None:
                state.pop(key, None)
            else:
                state[key] = values
        self._note(Event(rows=rows), state)

    def _note(self, event: Event, state: Any) -> None:
        self.events.append(event)
        self.states.append(dict(state))
        last = self.times_ms[-1] if self.times_ms else START_MS
        self.times_ms.append(last + self.random.choice([0, 1, 1000, 5000, -3000]))

    def _new_row(self) -> Values | None:
        choice = self.random.random()
        if choice < 0.3:
            return None
        return self.random.choice(self._former) if choice < 0.5 and self._former else self._row()

    def _row(self) -> Values:
        row = {each.number: each.value(self.random) for each in self.columns}
        if self.random.random() < 0.15:
            row = dict.fromkeys(row)
        row[0] = self.random.choice(CODES) if self.is_keyed_by_code else row[0]
        self._former.append(row)
        return row

    def _changed(self) -> tuple[Column, ...]:
        """Other columns; the first one, which may be a part of the key, stays."""
        random, (first, *others) = self.random, self.columns
        free = [name for name in NAMES if name not in {each.name for each in others}]
        ways: list[Callable[[list[Column], str], list[Column]]] = [self._widened, self._reordered]
        if len(others) < 6:
            ways += [self._with_new] * 2
        if len(others) > 1:
            ways += [self._swapped]
            ways += [self._without] * 2 if self.drops else []
        ways += [self._renamed] * 2
        if self.has_nested_renames:
            ways += [self._inside]
        return (first, *random.choice(ways)(others, random.choice(free)))

    def _with_new(self, others: list[Column], name: str) -> list[Column]:
        self._numbers += 1
        new = Column(self._numbers, name, self.random.choice(KINDS))
        others.insert(self.random.randrange(len(others) + 1), new)
        return others

    def _without(self, others: list[Column], name: str) -> list[Column]:  # noqa: ARG002
        gone = others.pop(self.random.randrange(len(others)))
        # Perhaps another one with the same name comes at once.
        return self._with_new(others, gone.name) if self.random.random() < 0.5 else others

    def _renamed(self, others: list[Column], name: str) -> list[Column]:
        place = self.random.randrange(len(others))
        cased = others[place].name.swapcase()
        is_free = cased not in {each.name for each in others}
        others[place] = replace(others[place], name=cased if is_free and self.random.random() < 0.5 else name)
        return others

    def _swapped(self, others: list[Column], name: str) -> list[Column]:  # noqa: ARG002
        one, two = self.random.sample(range(len(others)), 2)
        names = others[one].name, others[two].name
        others[two], others[one] = (replace(others[p], name=name) for p, name in zip((two, one), names, strict=True))
        return others

    def _widened(self, others: list[Column], name: str) -> list[Column]:  # noqa: ARG002
        return [replace(each, kind="long") if each.kind == "number" else each for each in others]

    def _reordered(self, others: list[Column], name: str) -> list[Column]:  # noqa: ARG002
        return self.random.sample(others, len(others))

    def _inside(self, others: list[Column], name: str) -> list[Column]:  # noqa: ARG002
        fields = tuple(self.random.sample(FIELDS, 2))
        return [replace(each, fields=(fields[0], fields[1])) for each in others]


def shown(values: Values | None, columns: Sequence[Column]) -> dict[str, Any] | None:
    return None if values is None else {each.name: each.shown(values.get(each.number)) for each in columns}


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    return pa.schema([("id", pa.int64()), *((each.name, each.type) for each in columns)])


@dataclass
class Cut:
    """A history in batches, as ``random`` cuts them, brought by processes that it ends.

    Attributes:
        between: changes the target as others may do it.
    """

    source: RandomHistory
    random: Random
    open_sink: OpenSink
    between: Callable[[Random], object]
    lost_connection: Callable[[], Exception] = ConnectionError
    hidden: tuple[str, ...] = ()
    identity: tuple[str, ...] | None = None
    schemas: dict[int, pa.Schema] = field(default_factory=dict)
    columns: tuple[Column, ...] = FIRST
    first_batch: int = 0

    def __post_init__(self) -> None:
        self.history = StagedHistory(
            schema=schema_of(FIRST),
            identity=self.source.identity if self.identity is None else self.identity,
            hidden=self.hidden,
            clock=iter(self.source.times_ms),
        )

    def deliver(self) -> StagedHistory:
        """Bring all events."""
        DeliveringProcess(self.open_sink).claim(ORIGIN)
        for staged in self._batches():
            for each in staged:
                self._bring(each)
        return self.history

    def _batches(self) -> Iterator[list[StagedBatch]]:
        events = self.source.events
        loads = [place for place, each in enumerate(events) if each.is_load]
        for start, stop in pairwise([*loads, len(events)]):
            self.first_batch = self.history.next_number
            rows = {key: shown(values, self.columns) or {} for key, values in events[start].rows.items()}
            yield self._noted(self.history.load(rows, batches=self.random.randrange(1, 4)))
            place = start + 1
            while place < stop:
                some = events[place : min(stop, place + self.random.randrange(0, 6))]
                place += len(some)
                for each in some:
                    if each.columns:
                        self._evolve(each.columns)
                steps = [each.rows for each in some if not each.columns]
                yield self._noted(
                    [self.history.change(*({key: shown(row, self.columns) for key, row in s.items()} for s in steps))]
                )

    def _noted(self, batches: list[StagedBatch]) -> list[StagedBatch]:
        self.schemas |= {each.batch.batch_number: each.batch.schema for each in batches}
        return batches

    def _evolve(self, columns: tuple[Column, ...]) -> None:
        before, now = ({path: name for each in some for path, name in each.paths()} for some in (self.columns, columns))
        self.history.evolve(
            schema_of(columns),
            renamed={name: before[path] for path, name in now.items() if before.get(path, name) != name},
            new={name: None for path, name in now.items() if path not in before},
        )
        self.columns = columns

    def _bring(self, staged: StagedBatch) -> None:
        random = self.random
        if random.random() < 0.3:
            self.between(random)
        others = DeliveringProcess(self.open_sink)
        chance = random.random()
        if chance < 0.1:
            late = StoppedProcess(self.open_sink, random.randrange(7), methodcaller("run", staged))
            # In the interpreter's one process: whoever wakes up late meets the batch of the others.
            require_no_error(late.passed_by(lambda: others.run(staged, repeats=True)), but=(TransientError,))
        elif chance < 0.5:
            fault = random.choice([Fault.KILLED, Fault.LOST_REQUEST, Fault.LOST_REPLY])
            calls = OutwardCalls(fault, random.randrange(7), lost_connection=self.lost_connection)
            with suppress(ProcessEndedError, TransientError):
                DeliveringProcess(self.open_sink, calls).run(staged)
            if random.random() < 0.3:
                self.between(random)
        others.run(staged)
        if random.random() < 0.05:
            others.run(staged.replayed(), repeats=True)


def instants(source: RandomHistory) -> Iterator[tuple[int, int]]:
    """Milliseconds at which states are current, with their numbers; the last one of equal times counts."""
    times = [*accumulate(source.times_ms, max)]
    for number, (begin, end) in enumerate(pairwise([*times, times[-1] + 1])):
        for time_ms in {begin, end - 1} if end > begin else ():
            yield time_ms, number
