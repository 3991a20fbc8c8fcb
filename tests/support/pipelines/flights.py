"""The table of the documentation's examples, ``nyc.flights`` in the catalog ``lakehouse``, and pipelines on it."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.open.next_range import RequestedRange
from icefloe.batch.run_settings import Credentials
from icefloe.engines.run_batch import Observer, run_batch
from icefloe.pipeline.model import Pipeline
from support.catalogs import sql_properties
from support.pipelines.lake import Lake
from support.pipelines.workspace import icefloe

__all__ = ["Flights"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flights:
    """The lake and the folder whose ``dags/pipelines`` the command line looks into."""

    folder: Path
    lake: Lake

    @classmethod
    def create(cls, folder: Path) -> Self:
        pipelines = folder / "dags" / "pipelines"
        pipelines.mkdir(parents=True)
        return cls(folder=folder, lake=Lake.create(folder, pipelines))

    @classmethod
    def entered(cls, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Self:
        """The same as the current folder, with its catalog in the environment: where the command line looks."""
        flights = cls.create(folder)
        for name, value in flights.variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(folder)
        return flights

    @property
    def variables(self) -> dict[str, str]:
        """The catalog, as PyIceberg's own configuration."""
        properties = sql_properties(self.folder)
        return {f"PYICEBERG_CATALOG__LAKEHOUSE__{name.upper()}": value for name, value in properties.items()}

    def write_pipeline(self, stem: str, documented: Mapping[str, Any] | None = None, **keys: Any) -> Path:
        """A pipeline file with places of its own in place of the documented ones, and no Spark."""
        written = {"version": 1, "catalog": "lakehouse", "table": "nyc.flights", **(documented or {}), **keys}
        sink = {"type": "files", **written.get("sink", {})}
        if sink["type"] == "files":
            sink["path"] = f"file://{self.folder}/{stem}/changes"
        sink.pop("conn_id", None)
        written |= {"storage": f"file://{self.folder}/{stem}/storage", "sink": sink, "engine": "local"}
        written.pop("storage_conn_id", None)
        path = self.lake.pipelines / f"{stem}.yaml"
        path.write_text(yaml.safe_dump(written, sort_keys=False))
        return path

    def follow(self, name: str) -> None:
        """Batches of an initial load, an update and nothing, and a backfill."""
        self.lake.append((1, "AA"), (2, "UA"))
        run_pipeline(name)
        self.lake.replace_carrier(2, "DL")
        run_pipeline(name)
        run_pipeline(name)
        run_pipeline(name, "--up-to-snapshot-id", self.lake.current_snapshot_id())

    def files(self, name: str) -> list[str]:
        """The files that a pipeline has written, below its folder."""
        top = self.folder / name
        return sorted(str(path.relative_to(top)) for path in top.rglob("*") if path.is_file())

    def files_before_cleanup(
        self,
        name: str,
        request: RequestedRange | None = None,
        *,
        is_damaged: bool,
        look: Callable[[list[str]], object] = len,
    ) -> list[str]:
        """The files when a batch is delivered and nothing is removed.

        Args:
            name: of the pipeline, whose next batch is run.
            request: a range, for a backfill.
            is_damaged: takes the data of a map output away before it is read.
            look: is called with the names while the files are there.
        """
        found: list[str] = []

        @contextmanager
        def observe(task: str) -> Iterator[None]:
            if task == "coalesce" and is_damaged:
                next((self.folder / name).rglob("*.data")).unlink()
            if task == "cleanup":
                found.extend(self.files(name))
                look(found)
            yield

        self.run(name, request, observe=observe)
        return found

    def run(self, name: str, request: RequestedRange | None = None, *, observe: Observer) -> None:
        """The next batch, or a range, in this process."""
        session = PipelineSession.open(
            Pipeline.load(self.lake.pipelines / f"{name}.yaml"), credentials=Credentials(), environ=os.environ
        )
        run_batch(session, request, environ=os.environ, observe=observe)


def run_pipeline(*arguments: object) -> None:
    done = icefloe("run", *arguments)
    assert done.code == 0, done.err
