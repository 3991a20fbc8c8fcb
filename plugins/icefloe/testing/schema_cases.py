"""Columns that are added, promoted or hidden, and rows without an identity."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pytest

from icefloe.errors import TerminalError
from icefloe.testing.arrival_cases import MIXED
from icefloe.testing.not_conforming import NotConformingError
from icefloe.testing.outward_calls import OutwardCalls
from icefloe.testing.sink_under_test import SinkUnderTest, case, some_rows
from icefloe.testing.staged_history import FLIGHTS, Row, StagedHistory

_EVOLVED: Final[Mapping[str, tuple[pa.Schema, Row]]] = {
    "a promoted column": (
        pa.schema([*FLIGHTS.remove(2), ("number", pa.int64())]),
        {"word": "long", "number": 2**40},
    ),
    "an added column": (
        pa.schema([*FLIGHTS, ("added", pa.string())]),
        {"word": "more", "added": "value"},
    ),
}
"""Schemas and a row that only they can hold."""


class SchemaCases(SinkUnderTest):
    """A change of columns arrives, or is refused before anything is written."""

    @pytest.mark.parametrize("name", _EVOLVED)
    def test_another_schema_arrives_or_is_refused(self, name: str) -> None:
        schema, row = _EVOLVED[name]
        history, before = StagedHistory(), StagedHistory()
        destination = self.begun(history)
        before.load(some_rows(9))
        history.evolve(schema)
        staged = history.change({**MIXED, 3: row})
        sink = self.open_sink(destination, OutwardCalls())
        with case(name):
            try:
                sink.begin(staged.batch)
            except TerminalError:
                self.require(destination, before)
                return
            finally:
                sink.close()
            self.deliver(destination, staged)
            self.require(destination, history)

    def test_hidden_identity_columns_are_not_shown(self) -> None:
        history = StagedHistory(hidden=("id",))
        with case("an identity that the pipeline does not select"):
            destination = self.begun(history)
            self.deliver(destination, history.change(MIXED))
            self.require(destination, history)

    def test_rows_without_identity_arrive_in_a_log_and_are_refused_by_a_keyed_sink(self) -> None:
        history = StagedHistory(identity=())
        destination = self.new_destination()
        sink = self.open_sink(destination, OutwardCalls())
        rows: dict[int, Row] = some_rows(4)
        [load] = history.load(rows)
        with case("rows without identity"):
            sink.claim(history.origin)
            try:
                sink.begin(load.batch)
            except TerminalError:
                if not sink.keyed:
                    raise
                return
            if sink.keyed:
                raise NotConformingError("a keyed sink began a batch without identity; expected a TerminalError")
            self.deliver(destination, load, history.change({1: None, 9: {"word": "new"}}))
            self.require(destination, history)
        sink.close()
