"""The requests of each phase to the stores, checked against the rights in docs/operations.md."""

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from icefloe.storage.local_store import LocalStore
from icefloe.storage.object_store import ObjectStore
from support.pages.blocks import ROOT
from support.pipelines.flights import Flights

OPERATIONS = {
    "get": "read", "get_ranges": "read", "head": "read",
    "put": "write", "create": "create", "list": "list", "delete": "delete",
}  # fmt: skip
ROWS = {
    "plan": "worker: `wait_for_snapshot`, `plan`",
    "insert_only": "Spark executors",
    "shuffle_write": "Spark executors",
    "coalesce": "worker: `coalesce`",
    "shuffle_read": "Spark executors",
    "commit": "worker: `commit`, `cleanup`",
    "cleanup": "worker: `commit`, `cleanup`",
}
SELDOM = {
    ("Spark executors", "storage"): {"delete"},
    ("Spark executors", "sink"): {"read", "write"},
    ("worker: `coalesce`", "storage"): {"delete"},
    ("worker: `commit`, `cleanup`", "sink"): {"read"},
    ("worker: `commit`, `cleanup`", "storage"): {"write"},  # status.json, which this run writes between its tasks
}
"""Done where another attempt was there before, or something damaged what it wrote."""


def documented() -> dict[str, dict[str, set[str]]]:
    """The rights by component and place."""
    page = (ROOT / "docs" / "operations.md").read_text()
    rows = [row.strip("| ").split(" | ") for row in re.findall(r"^\| .+ \|$", page, re.MULTILINE)]
    return {
        cells[0]: {"storage": words(cells[3]), "sink": words(cells[4])}
        for cells in rows
        if len(cells) == 5 and cells[0] in ROWS.values()
    }


def words(cell: str) -> set[str]:
    return set(re.findall(r"\w+", cell))


class Watched:
    """Which operations were done to which place, by phase."""

    def __init__(self) -> None:
        self.phase = ""
        self.done: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))

    @contextmanager
    def observe(self, task: str) -> Iterator[None]:
        self.phase = task
        yield
        self.phase = ""

    def watching(self, asked: Any) -> Any:
        def call(store: ObjectStore, kind: str, action: str, key: str, **keywords: Any) -> Any:
            self._note(store, OPERATIONS[kind])
            return asked(store, kind, action, key, **keywords)

        return call

    def watching_disk(self, asked: Any, operation: str) -> Any:
        """Of a store on local disk, which writes by itself."""

        def call(store: LocalStore, *arguments: Any) -> Any:
            self._note(store, operation)
            return asked(store, *arguments)

        return call

    def _note(self, store: ObjectStore, operation: str) -> None:
        place = "sink" if "/changes" in store.url else "storage"
        if self.phase:
            self.done[ROWS[self.phase]][place].add(operation)


def test_each_component_needs_the_rights_that_are_documented(flights: Flights, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    monkeypatch.setattr(ObjectStore, "_asked", watched.watching(ObjectStore._asked))
    for name, operation in {"_replace": "write", "_add": "create", "_remove": "delete"}.items():
        monkeypatch.setattr(LocalStore, name, watched.watching_disk(getattr(LocalStore, name), operation))
    flights.write_pipeline("flights")
    flights.lake.append((1, "AA"), (2, "UA"))
    flights.run("flights", observe=watched.observe)
    flights.lake.replace_carrier(2, "DL")
    flights.run("flights", observe=watched.observe)
    for component, places in documented().items():
        for place, rights in places.items():
            done = watched.done[component][place]
            assert done <= rights, f"{component} does more to the {place} than is documented"
            assert rights - done == SELDOM.get((component, place), set()), f"{component} at the {place}"
