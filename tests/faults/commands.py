"""The commands of an operator on a pipeline with a search index, and the proof that any fault leaves them repeatable.

The pipeline has delivered a load and two batches, keeps what it staged, and may have a dead letter. A row was deleted
in the index and came back in the table since. The cluster is in memory, behind HTTP: commands may be processes.
"""

import copy
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self
from unittest import mock
from urllib.parse import parse_qsl, unquote, urlsplit

from opensearchpy.exceptions import TransportError

from faults.place import Place, Scenario, Stores, session_of
from icefloe.batch.plan.open_and_plan import open_and_plan
from support.fakes.answering_server import answering_server
from support.pipelines.replay import table_rows
from support.pipelines.workspace import Outcome, icefloe
from support.sinks.fake_cluster import FakeCluster
from support.tables.table_states import TableStates

__all__ = ["COMMANDS", "CommandPlace", "ServedCluster", "served_cluster"]

_INDEX: Final = "events"
_POISONED: Final = "2:21"
"""The document that the cluster refuses once."""
_SCENARIO: Final = Scenario(name="events", shown=["loaded", "updated", "deleted", "returned", "returned"])
COMMANDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "reset": ("reset", "PIPELINE", "--yes"),
        "set-cursor": ("set-cursor", "PIPELINE", "--snapshot-id", "SNAPSHOT", "--yes"),
        "abandon": ("abandon", "PIPELINE", "--yes"),
        "sweep": ("sweep", "STORAGE", "--yes"),
        "verify": ("verify", "PIPELINE"),
        "deliver": ("deliver", "PIPELINE", "--batches", "0-2"),
        "purge": ("purge", "PIPELINE", "--older-than", "1h", "--yes"),
        "run": ("run", "PIPELINE"),
    }
)
"""Arguments by name; words in capitals stand for what a place has."""
_NEEDS_OPEN_BATCH: Final = frozenset({"abandon", "run"})


class ServedCluster:
    """A cluster in memory whose state can be kept and brought back.

    Attributes:
        url: where it answers.
        cluster: the present state.
    """

    def __init__(self) -> None:
        self.url = ""
        self.cluster = FakeCluster()

    def answer(self, request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        """The answer to a request of the client."""
        parsed = urlsplit(request.path)
        status: Any = 200
        body: Any = None
        try:
            body = self.cluster.perform_request(
                request.command, unquote(parsed.path), dict(parse_qsl(parsed.query)), request.rfile.read()
            )
        except TransportError as error:
            status, body = error.status_code, error.info
        return status, {"Content-Type": "application/json"}, json.dumps(body or {}).encode()

    def poison(self, *ids: str) -> None:
        """Lets the cluster refuse these documents for good, and no others."""
        self.cluster.item_refusal = lambda action, _: (400, "mapper_parsing") if action["_id"] in ids else None


@contextmanager
def served_cluster() -> Iterator[ServedCluster]:
    """A cluster that answers until the block ends."""
    made = ServedCluster()
    with answering_server(made.answer) as (url, _):
        made.url = url
        yield made


class _Later(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        """Two hours later."""
        return super().now(tz) + timedelta(hours=2)


@dataclass(frozen=True, kw_only=True)
class CommandPlace:
    """A pipeline, before one of its commands.

    Attributes:
        command: see `COMMANDS`.
        place: of the pipeline, its stores and its table.
        served: the cluster.
        kept: the state of the cluster before the command.
        backup: a copy of the folder of that moment.
    """

    command: str
    place: Place
    served: ServedCluster
    kept: dict[str, Any]
    backup: Path

    @classmethod
    def create(cls, folder: Path, states: TableStates, served: ServedCluster, *, command: str) -> Self:
        """Everything in place for a command; dead runs left an open batch, or files of one that is committed."""
        folder.mkdir()
        url = f"file://{folder}/place"
        (folder / "place").mkdir()
        place = Place(
            scenario=_SCENARIO, folder=folder / "place", stores=Stores(folder=folder / "place", url=url),
            shown=states.shown(folder / "place", _SCENARIO.shown[0]),
        )  # fmt: skip
        served.cluster = FakeCluster()
        place.write_pipelines(
            sink={
                "type": "opensearch", "url": served.url, "index": _INDEX, "bulk_bytes": 200,
                "dead_letters": {"path": f"{url}/letters"},
            },
            changelog={"path": f"{url}/log"},
        )  # fmt: skip
        place.deliver_all()
        place.shown.at("updated")
        served.poison(*([_POISONED] if command == "deliver" else []))
        place.deliver_all()
        served.poison()
        place.shown.at("deleted")
        with mock.patch("icefloe.batch.deliver.commit_batch.clean_up_finished", return_value=0):
            place.deliver_all()
        place.shown.at("returned")
        if command in _NEEDS_OPEN_BATCH:
            open_and_plan(session_of(place.pipelines[0]))
        shutil.copytree(folder / "place", folder / "backup", symlinks=True)
        return cls(
            command=command,
            place=place,
            served=served,
            kept=copy.deepcopy(served.cluster.indexes),
            backup=folder / "backup",
        )

    def restore(self) -> None:
        """Brings back the moment before the command."""
        shutil.rmtree(self.place.folder)
        shutil.copytree(self.backup, self.place.folder, symlinks=True)
        self.served.cluster.indexes = copy.deepcopy(self.kept)

    def arguments(self, command: str) -> list[str]:
        """Of the command line."""
        words = {
            "PIPELINE": str(self.place.pipelines[0]),
            "STORAGE": f"{self.place.stores.url}/storage",
            "SNAPSHOT": str(self.place.shown.table().metadata.snapshots[-1].snapshot_id),
        }
        return [words.get(each, each) for each in COMMANDS[command]]

    def run(self, command: str) -> Outcome:
        """A command in this process, two hours later: what was deleted is old enough to be purged."""
        with mock.patch("icefloe.cli.upkeep.datetime", _Later):
            return icefloe(*self.arguments(command))

    def process(self) -> list[str]:
        """The command as a process: its words."""
        return [sys.executable, "-B", "-m", "icefloe", *self.arguments(self.command)]

    def require_exact(self, *, is_swept: bool = False) -> None:
        """Runs go on; then index and table are equal, `verify` agrees, and nothing is left between the phases.

        Args:
            is_swept: whether removals may have failed, so that a sweep comes before the look.
        """
        # Commits that an operator skipped come by a load.
        anew = ("reset",) if self.command == "set-cursor" else ()
        for command in (*(("deliver",) if self.command == "deliver" else ()), *anew, "run"):
            done = self.run(command)
            assert done.code == 0, (command, done)
        while self.place.deliver(self.place.pipelines[0]):
            pass
        self.require_held()
        if is_swept:
            self.place.require_swept()
        for command in ("sweep", "verify"):
            done = self.run(command)
            assert done.code == 0, (command, done)
        self.place.require_clean()

    def require_held(self) -> None:
        """The documents that readers see are the rows of the table."""
        columns = self.place.columns
        documents = self.served.cluster.documents(_INDEX).values()
        held = sorted(tuple(each[name] for name in columns) for each in documents if not each.get("_deleted"))
        assert held == sorted(table_rows(self.place.shown.table(), columns).elements())

    def marks(self) -> int:
        """Number of the documents that mark deleted rows."""
        return sum(bool(each.get("_deleted")) for each in self.served.cluster.documents(_INDEX).values())
