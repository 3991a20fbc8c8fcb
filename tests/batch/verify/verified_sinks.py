"""A pipeline that delivers to a sink in memory or to files, and what `icefloe verify` says of it."""

from collections.abc import Mapping
from typing import Any

from support.pipelines.workspace import Outcome, Workspace, icefloe

__all__ = ["VerifiedSinks"]


class VerifiedSinks(Workspace):
    """A pipeline that delivers to a sink in memory."""

    def deliver(self, sink: str, **keys: Any) -> None:
        done = icefloe("run", self.pipeline(sink=self.sink(sink), engine="local", **keys))
        assert (done.code, done.err) == (0, "")

    def verify(self, sink: str, *arguments: str, **keys: Any) -> Outcome:
        return icefloe("verify", self.pipeline(sink=self.sink(sink), engine="local", **keys), *arguments)

    def sink(self, kind: str) -> Mapping[str, str]:
        return {"type": kind} | ({"path": f"file://{self.folder}/reduced"} if kind == "files" else {})

    def require_equal(self, sink: str, rows: int, **keys: Any) -> None:
        found = self.verify(sink, "--json", **keys)
        assert (found.code, found.err) == (0, "")
        assert found.document["is_equal"] is True
        assert (found.document["rows"], found.document["notes"]) == (rows, [])
