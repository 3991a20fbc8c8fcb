"""The situations in which runs are stopped that deliver to a sink, and the proof that the sink holds the table.

The sinks are those of `support.sinks` over servers in memory, one server for each pipeline of a place. Their outward
calls are operations before which a run may be stopped, like reads and writes of documents.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from faults.place import Place, Scenario, Stores, session_of
from icefloe.batch.deliver.commit_batch import clean_up_finished
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.upkeep.cursor_moves import PipelineReset, complete_unfinished, make_move
from icefloe.batch.verify.verify_batches import verify_batches
from support.fakes.gates import gated_client
from support.pipelines.replay import replayed, table_rows
from support.sinks.index_sink import IndexSink
from support.sinks.log_sink import LogSink
from support.sinks.memory_index import MemoryIndex
from support.sinks.memory_log import MemoryLog
from support.sinks.registered import INDICES, LOGS, registered_sinks
from support.tables.table_states import ShownTable

__all__ = ["DELIVERING", "DeliveringPlace", "DeliveringScenario", "sinks_in_memory"]


@contextmanager
def sinks_in_memory() -> Iterator[None]:
    """Lets pipelines deliver to servers in memory, which end with the block."""
    with registered_sinks(
        index=lambda options: IndexSink(gated_client(INDICES[options["server"]])),
        log=lambda options: LogSink(gated_client(LOGS[options["server"]])),
    ):
        yield


@dataclass(frozen=True, kw_only=True)
class DeliveringScenario(Scenario):
    """A scenario whose pipelines deliver.

    Attributes:
        sink: ``index`` holds a document per key, ``log`` holds the changes.
        is_kept: whether staged batches are kept.
        is_reset: whether an operator resets the pipeline before the next batch.
        has_backfill: whether a backfill of the same pipeline runs before the next batch.
    """

    sink: Literal["index", "log"] = "index"
    is_kept: bool = False
    is_reset: bool = False
    has_backfill: bool = False

    def _place(self, folder: Path, shown: ShownTable, stores: Stores) -> "DeliveringPlace":
        return DeliveringPlace(scenario=self, folder=folder, shown=shown, stores=stores)


DELIVERING = {
    scenario.name: scenario
    for scenario in (
        DeliveringScenario(name="load", shown=["loaded", "updated"]),
        DeliveringScenario(name="parts", shown=["loaded", "loaded", "updated"], keys={"max_bytes_per_batch": 1}),
        DeliveringScenario(
            name="earliest", shown=["loaded", "updated"], keys={"initial_load": "from_earliest"}, is_reset=True
        ),
        DeliveringScenario(name="changes", shown=["loaded", "updated", "appended"], sink="log"),
        DeliveringScenario(name="net", shown=["loaded", "deleted", "compacted"], keys={"changes": "net"}),
        DeliveringScenario(name="inserts", shown=["updated", "appended", "deleted"], is_kept=True),
        DeliveringScenario(name="reset", shown=["loaded", "updated", "appended"], is_reset=True),
        DeliveringScenario(name="reload", shown=["updated", "deleted", "last"], sink="log", is_reset=True),
        DeliveringScenario(name="beside", shown=["loaded", "updated", "appended"], has_backfill=True),
        DeliveringScenario(name="gap", shown=["loaded", "expired", "last"], keys={"on_gap": "reload"}),
    )
}


@dataclass(frozen=True, kw_only=True)
class DeliveringPlace(Place):
    """The files and servers of one stopped run."""

    scenario: DeliveringScenario

    def write_pipelines(self, **further: Any) -> None:
        """See `Place`."""
        sink = {"type": self.scenario.sink, "server": str(self.folder)}
        kept = {"changelog": {"path": f"{self.stores.url}/log"}} if self.scenario.is_kept else {}
        super().write_pipelines(sink=sink, **kept, **further)

    def others(self) -> None:
        """Others finish this batch and all that come next, with something new in them."""
        [path] = self.pipelines
        self.deliver(path)
        if self.scenario.is_reset:
            self.reset()
        if self.scenario.has_backfill:
            snapshots = self.shown.table().metadata.snapshots
            self.deliver(path, RequestedRange(up_to_snapshot_id=snapshots[-1].snapshot_id))
        self.shown.at(self.scenario.shown[-1])
        while self.deliver(path):
            pass

    def reset(self) -> None:
        """``icefloe reset --yes``."""
        session = session_of(self.pipelines[0], self.stores.credentials)
        complete_unfinished(session)
        found = PipelineReset.plan(session)
        assert found is not None
        make_move(session, found.offset)

    def delivered(self) -> dict[str, str]:
        """See `Place`; batches that are staged for a time may go."""
        kept = super().delivered()
        return {path: digest for path, digest in kept.items() if "/staged/" not in path}

    def require_held(self) -> None:
        """The sink holds exactly the rows of the table."""
        held = _documents(self._index) if self.scenario.sink == "index" else _replayed(self._log)
        wanted = table_rows(self.shown.table(), self.columns)
        assert Counter(tuple(row[name] for name in self.columns) for row in held) == wanted

    def require_exact(self, *, is_swept: bool = False) -> None:
        """Sink and table are equal, reports are honest, and nothing is left but what is promised to stay."""
        [path] = self.pipelines
        self._finish(path)
        if is_swept:
            self.require_swept()
        self.require_held()
        self._require_reports()
        self._require_staged()
        self.require_clean()

    def _require_reports(self) -> None:
        """Each batch with changes says how many documents it brought."""
        checkpoint = self.folder / self.pipelines[0].stem / "checkpoint"
        for path in checkpoint.glob("reports/*.json"):
            report, commit = (
                json.loads((checkpoint / each / path.name).read_text()) for each in ("reports", "commits")
            )
            delivery = report.get("delivery")
            if commit["ending"]["outcome"] == "reset":
                assert delivery is None
                continue
            # An update is two changes of one document.
            counts = {**report["batch"]["counts"], **({} if self.scenario.sink == "log" else {"update_before": 0})}
            # A batch of several steps may change a document more than once.
            least = 1 if report["batch"]["steps"] > 1 and self.scenario.sink == "index" else sum(counts.values())
            assert least <= delivery["documents"] <= sum(counts.values()), path
            assert 0 <= delivery["repeated"] <= delivery["documents"]
            assert (delivery["dead_letters"], delivery["superseded"]) == (0, 0)

    def _require_staged(self) -> None:
        """Only the last batch is staged, or all of them are kept and can be replayed."""
        [path] = self.pipelines
        checkpoint = self.folder / path.stem / "checkpoint"
        last = max(int(each.stem) for each in (checkpoint / "commits").iterdir())
        if self.scenario.is_kept:
            assert replayed(self.folder / "log", checkpoint, self.columns) == table_rows(
                self.shown.table(), self.columns
            )
            found = verify_batches(session_of(path, self.stores.credentials))
            assert (found.sentences, found.notes) == ((), ())
            return
        # The cleanup of a next batch, which takes what a late run staged.
        session = session_of(path, self.stores.credentials)
        offset = session.checkpoint.offset(last)
        assert offset is not None
        clean_up_finished(session.reference(offset))
        staged = self.folder / "storage/staged/events"
        assert {each.parent.name for each in staged.glob("batch=*/*")} == {f"batch={last}"}

    @property
    def _index(self) -> MemoryIndex:
        return INDICES[str(self.folder)]

    @property
    def _log(self) -> MemoryLog:
        return LOGS[str(self.folder)]


def _documents(index: MemoryIndex) -> list[Mapping[str, Any]]:
    """The documents that readers see."""
    state = index.get("meta", "state").document
    assert state is not None
    return list(index.scan(state["live"]))


def _replayed(log: MemoryLog) -> list[Mapping[str, Any]]:
    """The rows of a reader of the log, who believes each change: it must fit to the state that the reader has."""
    held: dict[str, Mapping[str, Any]] = {}
    for message in log.read_committed("changes"):
        change = message.value
        if change.get("truncate"):
            held.clear()
        elif change["_change_type"] in ("INSERT", "UPDATE_AFTER"):
            assert message.key not in held, f"{change} came twice"
            held[message.key] = change
        else:
            before = held.pop(message.key)
            assert before["value"] == change["value"], f"{change} came in the wrong order"
    return list(held.values())
