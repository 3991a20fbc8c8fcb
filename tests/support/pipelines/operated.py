"""A workshop with the commands of an operator, and the check that nothing was lost or doubled by them."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.pipelines.leftovers import left_in_shuffle
from support.pipelines.replay import consumed_rows
from support.pipelines.workshop import Workshop
from support.pipelines.workspace import Outcome, icefloe

__all__ = ["Operated"]


@dataclass(frozen=True, kw_only=True)
class Operated(Workshop):
    """A workshop whose pipeline is operated by the command line."""

    @property
    def sink(self) -> Path:
        return self.folder / "changes"

    def command(self, name: str, *options: object) -> Outcome:
        return icefloe(name, self.pipeline_file(), *options)

    def run(self) -> dict[str, Any]:
        """The JSON of the next batch."""
        done = self.command("run", "--json")
        assert done.code == 0, done.err
        return done.document

    def abandon(self, *options: object) -> Outcome:
        return self.command("abandon", *(options or ("--yes",)))

    def record(self, key: str) -> dict[str, Any]:
        return json.loads((self.folder / f"storage/checkpoints/events/{key}").read_text())

    def manifest(self, batch_number: int) -> dict[str, Any]:
        return json.loads((self.sink / f"batch={batch_number}/_manifest.json").read_text())["batch"]

    def between_phases(self) -> list[str]:
        """Everything that batches passed between their phases and that is still there."""
        return [str(path) for path in left_in_shuffle(self.storage)]

    def table_rows(self) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(row.values()) for row in self.table.refresh().scan().to_arrow().to_pylist())

    def require_consistent(self) -> None:
        """A consumer has the rows of the table, `verify` agrees, and nothing is left between the phases."""
        while self.run()["batch"] is not None:
            pass
        assert consumed_rows(self.sink) == self.table_rows()
        verified = self.command("verify")
        assert verified.code == 0, verified.err
        assert self.between_phases() == []
