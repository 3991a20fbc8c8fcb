"""A pipeline that delivers to a sink in memory or to files, and what `icefloe verify` says of it."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from support.pipelines.workspace import Outcome, Workspace, icefloe
from support.sinks.log_sink import LogSink
from support.sinks.memory_index import MemoryIndex, Stored

__all__ = ["CompactedLog", "PlainLog", "VerifiedSinks", "WholeLog", "live"]


class PlainLog(LogSink):
    """A log of rows as they are after a change; of a row that is gone it has the key."""

    shows_removed_rows = False

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        for rows in super().read_back(schema, keys=keys):
            shown = [row for row in rows.to_pylist() if row["_change_type"] != "UPDATE_BEFORE"]
            for row in shown:
                if row["_change_type"] == "DELETE":
                    row.update(value=None, word=None)
            yield pa.RecordBatch.from_pylist(shown, schema=schema)


class CompactedLog(LogSink):
    """A log that removes changes that have a later one."""

    def may_lack_oldest(self) -> bool:
        return False


class WholeLog(CompactedLog):
    """A log that removes nothing."""

    def may_lack_replaced(self) -> bool:
        return False


class VerifiedSinks(Workspace):
    """A pipeline that delivers to a sink in memory."""

    def deliver(self, sink: str, **keys: Any) -> None:
        done = icefloe("run", self.pipeline(sink=self.sink(sink), engine="local", **keys))
        assert (done.code, done.err) == (0, "")

    def deliver_three_batches(self, sink: str, **keys: Any) -> None:
        """A load, updates, then rows that come and go."""
        self.append(1, 2, 3, 4, 6)
        self.deliver(sink, **keys)
        self.update(2, value=7.0)
        self.deliver(sink, **keys)
        self.delete(3, 6)
        self.append(5, 3)
        self.deliver(sink, **keys)

    def verify(self, sink: str, *arguments: str, **keys: Any) -> Outcome:
        return icefloe("verify", self.pipeline(sink=self.sink(sink), engine="local", **keys), *arguments)

    def sink(self, kind: str) -> Mapping[str, str]:
        return {"type": kind} | ({"path": f"file://{self.folder}/reduced"} if kind == "files" else {})

    def require_equal(self, sink: str, rows: int, **keys: Any) -> None:
        found = self.verify(sink, "--json", **keys)
        assert (found.code, found.err) == (0, "")
        assert found.document["is_equal"] is True
        assert (found.document["rows"], found.document["notes"]) == (rows, [])


def live(server: MemoryIndex) -> dict[str, Stored]:
    """Documents by id of the index that readers see."""
    state = server.get("meta", "state").document
    assert state is not None
    return server._indices[state["live"]]
