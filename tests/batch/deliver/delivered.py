"""A pipeline that delivers to a folder of documents, run by the command line."""

import json
from pathlib import Path
from typing import Any

from support.pipelines.workspace import Outcome, Workspace, icefloe
from support.sinks.document_folder import DocumentFolder


class Delivered(Workspace):
    """A pipeline that delivers to a folder of documents."""

    @property
    def target(self) -> Path:
        return self.folder / "documents"

    def deliver(self, *arguments: str, **keys: Any) -> Outcome:
        sink = {"type": "documents", "folder": str(self.target)}
        return icefloe("run", self.pipeline(sink=sink, engine="local", **keys), *arguments)

    def documents(self) -> dict[str, dict[str, Any] | None]:
        return DocumentFolder(self.target).documents()

    def staged(self) -> set[str]:
        return {path.parent.name for path in self.storage().glob("staged/events/batch=*/*")}

    def report(self, batch: int) -> dict[str, Any]:
        return json.loads((self.storage() / f"checkpoints/events/reports/{batch}.json").read_text())
