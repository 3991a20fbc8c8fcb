"""A keyed sink over `MemoryIndex`: external versions, a new index for each load, and a state that is compared and set.

The version of a document is ``generation << 32 | batch``: a take-over raises the generation. All parts write to the
index that `begin` named, so a late one finds that index gone, or documents of its own version.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.sink import PartDelivery, Sink, SupersededError
from support.sinks.memory_index import BusyError, ConflictError, Document, MemoryIndex, MissingIndexError
from support.sinks.rows_of_keys import final_rows, refuse_other, selected

__all__ = ["IndexSink"]

_TRIES = 3


class IndexSink(Sink):
    keyed: ClassVar[bool] = True

    def __init__(self, index: MemoryIndex) -> None:
        self._index = index

    @property
    def url(self) -> str:
        return "memory://index"

    def check(self) -> None:
        self._ask(self._index.index_names)

    def claim(self, origin: Origin, *, takes_over: bool = False, only_looks: bool = False) -> None:
        while True:
            version, state = self._state()
            if not takes_over:
                refuse_other(state, origin)
            if only_looks or state.get("owner") == origin.owner:
                return
            generation = state.get("generation", 0) + 1
            if self._set_state(version, {**state, "owner": origin.owner, "generation": generation, "loading": None}):
                return

    def begin(self, batch: ProvenBatch) -> Mapping[str, Any]:
        if not batch.identity:
            raise TerminalError("this index needs an identity")
        while True:
            version, state = self._state()
            refuse_other(state, batch.origin)
            mine = state["generation"] << 32 | batch.batch_number
            columns = {} if batch.begins_anew else state.get("columns", {})
            if columns and batch.defaulted - columns.keys():
                raise TerminalError("documents lack the initial default of a new column")
            if any(columns.get(name, field_id) != field_id for name, field_id in batch.field_ids.items()):
                raise TerminalError("documents have the values of another column")
            if state.get("done", 0) > mine and batch.is_replay:
                is_replaced = f"rows-{mine:020}" < state["live"]
                return {"index": state["live"], "version": mine, "is_replaced": is_replaced}
            if state.get("done", 0) > mine:
                raise SupersededError("a later batch is there", url=self.url, batch_number=batch.batch_number)
            begun = {"begun": mine, "end": batch.end}
            if state.get("begun") == mine and state["end"] != begun["end"] and not batch.is_replay:
                raise TerminalError("a restored checkpoint planned the batch again")
            index, wanted = f"rows-{mine:020}", {**state, **begun, "columns": {**columns, **batch.field_ids}}
            if state.get("done") == mine:
                index = state["loading"] or state["live"]
            elif batch.begins_anew:
                wanted["loading"] = index
            elif batch.is_load:
                index = state["loading"] or state["live"]
            else:
                wanted["live"] = index = state.get("live") or index
            self._ask(self._index.create_index, index)
            if self._set_state(version, wanted):
                return {"index": index, "version": mine}

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:
        rows = final_rows(batch, [part])
        operations = [(key, begun["version"], row) for key, row in rows.items()]
        if begun.get("is_replaced"):
            # A later load has the rows of this batch that are still there. A deleted one has left no version there.
            count = len(operations)
            return PartDelivery(number=part.number, rows=part.rows, documents=count, superseded=count)
        try:
            outcomes = self._ask(self._index.bulk, begun["index"], operations)
        except MissingIndexError as error:
            raise SupersededError("its index is gone", url=self.url, batch_number=batch.batch_number) from error
        return PartDelivery(
            number=part.number,
            rows=part.rows,
            documents=len(operations),
            repeated=outcomes.count("same"),
            superseded=outcomes.count("newer"),
            dead_letters=outcomes.count("rejected"),
        )

    def finish(self, batch: ProvenBatch, begun: Mapping[str, Any], _: Sequence[PartDelivery]) -> None:
        while True:
            version, state = self._state()
            done = state.get("done", 0)
            if done >> 32 > begun["version"] >> 32:
                # Another owner's load replaced the documents: a later batch of the same owner has them all.
                raise SupersededError("another owner took over", url=self.url, batch_number=batch.batch_number)
            if done >= begun["version"]:
                break
            live = {"live": begun["index"], "loading": None} if batch.ends_load else {}
            if self._set_state(version, {**state, **live, "done": begun["version"]}):
                break
        for name in self._ask(self._index.index_names):
            if batch.ends_load and name.startswith("rows-") and name < begun["index"]:
                self._ask(self._index.delete_index, name)

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        live = self._state()[1].get("live")
        try:
            documents = self._ask(self._index.scan, live) if live else []
        except MissingIndexError as error:
            raise TransientError("a load has replaced the index that was read") from error
        yield selected(documents, schema, keys)

    def close(self) -> None:
        pass

    def _state(self) -> tuple[int, dict[str, Any]]:
        """The claim and the indices of this destination, with their version."""
        stored = self._ask(self._index.get, "meta", "state")
        return stored.version, dict(stored.document)

    def _set_state(self, version: int, state: Document) -> bool:
        """False if the state is another one by now."""
        try:
            self._ask(self._index.replace, "meta", "state", state, if_version=version)
        except ConflictError:
            return False
        return True

    def _ask(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        for _ in range(_TRIES):
            try:
                return call(*arguments, **named)
            except BusyError:
                continue
            except ConnectionError as error:
                raise TransientError("the index did not answer") from error
        raise TransientError("the index is busy")
