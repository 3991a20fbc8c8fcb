"""The situations in which runs are stopped, their files, and the proof that nothing was lost and nothing came twice.

Each place gets a checkpoint, a storage and a sink of its own, over a table whose commits were made before.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.phases import run_phase
from icefloe.batch.plan.open_and_plan import open_and_plan
from icefloe.batch.run_settings import Credentials
from icefloe.batch.upkeep.survey import survey_storage
from icefloe.batch.verify.verify_batches import verify_batches
from icefloe.engines.local import LocalEngine
from icefloe.engines.run_batch import run_batch
from icefloe.flow import Phase
from icefloe.pipeline.model import Pipeline
from support.pipelines.leftovers import left_by_writers, left_in_shuffle
from support.pipelines.replay import replayed, table_rows
from support.pipelines.sweeping import aged
from support.tables.table_states import ShownTable, TableStates

__all__ = ["SCENARIOS", "Place", "Scenario", "Stores", "deliver", "session_of"]

_SHUFFLE = {"partitions": 4, "target_size_bytes": 1, "map_task_bytes": 1}
"""Several map tasks and several ranges, of a few rows each."""
_WEEK_SECONDS = 7 * 86_400


@dataclass(frozen=True, kw_only=True)
class Stores:
    """The stores of storage, checkpoints and sinks of a place.

    Attributes:
        folder: the files behind the URL.
        url: as pipelines name it.
        options: that open it; see `icefloe.storage.location.open_store`.
    """

    folder: Path
    url: str
    options: dict[str, str] = field(default_factory=dict)

    @property
    def credentials(self) -> Credentials:
        """As an operator hands them over."""
        return Credentials(storage_options=self.options, sink_options=self.options)


@dataclass(frozen=True, kw_only=True)
class Place:
    """The files of one stopped run."""

    scenario: "Scenario"
    folder: Path
    shown: ShownTable
    stores: Stores

    @property
    def pipeline(self) -> Path:
        """Its file."""
        return self.folder / f"{self.scenario.name}.yaml"

    @property
    def columns(self) -> tuple[str, ...]:
        """The selected columns."""
        return tuple(self.scenario.keys.get("columns", ("id", "value", "word")))

    def write_pipeline(self, **further: Any) -> None:
        """Writes the pipeline file, with other keys besides those of the scenario."""
        keys = {
            "version": 1,
            "name": "events",
            "catalog": self.shown.catalog,
            "table": "db.events",
            "identifier_columns": ["id"],
            "storage": f"{self.stores.url}/storage",
            "checkpoint": f"{self.stores.url}/checkpoint",
            "engine": "local",
            "shuffle": _SHUFFLE,
            "sink": {"type": "files", "path": f"{self.stores.url}/changes"},
        }
        self.pipeline.write_text(yaml.safe_dump({**keys, **self.scenario.keys, **further}))

    def deliver(self) -> bool:
        """See `deliver`."""
        return deliver(self.pipeline, credentials=self.stores.credentials)

    def damage(self) -> None:
        """Opens the batch, writes its map outputs, and changes a byte of the largest."""
        opened = open_and_plan(session_of(self.pipeline, self.stores.credentials))
        assert opened.reference is not None
        run_phase(Phase.SHUFFLE_WRITE, opened.reference, LocalEngine())
        data = max((self.stores.folder / "storage/shuffle").rglob("*.data"), key=lambda path: path.stat().st_size)
        content = bytearray(data.read_bytes())
        content[len(content) // 2] ^= 0xFF
        data.write_bytes(content)

    def delivered(self) -> dict[str, str]:
        """A digest of each file of committed batches: what readers may have seen, and must not change."""
        manifests = self.stores.folder.glob("changes/**/_manifest.json")
        files = [path for manifest in manifests for path in manifest.parent.iterdir()]
        records = self.stores.folder.glob("checkpoint/**/commits/*.json")
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in (*files, *records)}

    def sweep(self) -> None:
        """Sweeps as `icefloe sweep` does with its usual age; there must be no problem."""
        survey = survey_storage(
            f"{self.stores.url}/storage",
            older_than_seconds=_WEEK_SECONDS,
            credentials=self.stores.credentials,
            environ=os.environ,
        )
        _, problems = survey.delete()
        assert problems == ()

    def require_exact(self, *, is_swept: bool = False) -> None:
        """Sink and table are equal, `verify` agrees, and nothing is left of what passed between the phases.

        Args:
            is_swept: whether removals may have failed, so that a sweep comes before the look.
        """
        while self.deliver():
            pass
        if is_swept:
            self.require_swept()
        held = replayed(self.stores.folder / "changes", self.stores.folder / "checkpoint", self.columns)
        assert held == table_rows(self.shown.table(), self.columns)
        found = verify_batches(session_of(self.pipeline, self.stores.credentials))
        assert found.sentences == ()
        self.require_clean()

    def require_clean(self) -> None:
        """Nothing is left of what passed between the phases; a run that died may leave the probe of a store."""
        files = left_in_shuffle(self.stores.folder / "storage")
        left = [str(path) for path in files if not path.name.startswith("_probe-")]
        assert not left, f"left below {self.folder}: {left}"

    def require_swept(self) -> None:
        """A sweep leaves nothing of what passed between the phases, and once it is old, nothing of dead writers."""
        self.sweep()
        assert set(left_in_shuffle(self.stores.folder / "storage")) <= set(left_by_writers(self.folder))
        aged(self.folder, days=30)
        unfinished = {str(path) for path in left_by_writers(self.folder)}
        needed = {path: digest for path, digest in self.delivered().items() if path not in unfinished}
        self.sweep()
        assert self.delivered() == needed
        assert left_by_writers(self.folder) == []


def deliver(pipeline: Path, *, credentials: Credentials | None = None) -> bool:
    """A run; False if there was nothing to do."""
    done = run_batch(session_of(pipeline, credentials), None, environ=os.environ)
    return done.report is not None and not done.was_committed_before


def session_of(pipeline: Path, credentials: Credentials | None = None) -> PipelineSession:
    """A session of a pipeline file, as a run opens it."""
    return PipelineSession.open(Pipeline.load(pipeline), credentials=credentials or Credentials(), environ=os.environ)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A run that is late, and what happens before it and while it is stopped.

    Attributes:
        name: of its pipelines.
        shown: states of the table: one for each batch that is delivered before, that of the late run, and that of the
            next batch.
        keys: of the pipeline file.
        is_damaged: whether the late run finds its batch open, with a damaged map output.
    """

    name: str
    shown: Sequence[str]
    keys: dict[str, Any] = field(default_factory=dict)
    is_damaged: bool = False

    def place(self, folder: Path, states: TableStates, stores: Stores | None = None) -> Place:
        """Everything in place for the late run."""
        folder.mkdir()
        stores = stores or Stores(folder=folder, url=f"file://{folder}")
        place = Place(scenario=self, folder=folder, shown=states.shown(folder, self.shown[0]), stores=stores)
        place.write_pipeline()
        for state in self.shown[:-2]:
            place.shown.at(state)
            place.deliver()
        place.shown.at(self.shown[-2])
        if self.is_damaged:
            place.damage()
        return place


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(name="load", shown=["loaded", "updated"]),
        Scenario(name="changes", shown=["loaded", "updated", "appended"]),
        Scenario(name="damaged", shown=["loaded", "updated", "appended"], is_damaged=True),
    )
}
