"""The places of the changes of checkpoints: the sinks of files, and the folders where batches are staged."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from icefloe.batch.sweep.found_checkpoint import FoundCheckpoint, OpenPlace
from icefloe.batch.sweep.sink_files import SinkFiles
from icefloe.checkpoint.log import Checkpoint
from icefloe.checkpoint.record_keys import backfill_prefix
from icefloe.pipeline.environment import expand, has_reference
from icefloe.pipeline.url import url_below
from icefloe.storage.clock import store_time
from icefloe.storage.store import Store


@dataclass(slots=True, kw_only=True)
class PlacesOfChanges:
    """The places of changes that were found, each once, although the backfills of a pipeline have checkpoints too.

    Attributes:
        storage_url: the storage that is swept.
        age: files that were written longer ago are old.
        open_place: opens a folder of the storage, or a checkpoint.
        open_sink_place: opens a sink.
        environ: resolves ``${ENV}`` in URLs.
        notes: places that are left alone, for people.
    """

    storage_url: str
    age: timedelta
    open_place: OpenPlace
    open_sink_place: OpenPlace
    environ: Mapping[str, str]
    notes: list[str] = field(default_factory=list)
    _found: dict[tuple[str, str], SinkFiles] = field(default_factory=dict)

    def __iter__(self) -> Iterator[SinkFiles]:
        yield from self._found.values()

    def look(self, found: FoundCheckpoint) -> None:
        """Adds the places of a checkpoint.

        Raises:
            IcefloeError: the checkpoint or a place cannot be read.
        """
        record = found.checkpoint.look().pipeline
        if record is not None and record.result_configuration.get("sink.type") == "files":
            path = self._expanded(found, "sink", str(record.result_configuration["sink.path"]))
            if path is not None:
                self._add(found, path, self.open_sink_place(path), is_passed=False)
        usual_url = url_below(self.storage_url, "staged", found.pipeline)
        path = self._expanded(found, "folder of changes", found.changes_url or usual_url)
        if path is not None:
            self._add(found, path, self.open_place(path), is_passed=True)

    def _expanded(self, found: FoundCheckpoint, what: str, written: str) -> str | None:
        path = str(expand(written, self.environ))
        if has_reference(path):
            self.notes.append(f"the {what} {path} of pipeline {found.pipeline} uses a variable that is not set here")
            return None
        return path

    def _add(self, found: FoundCheckpoint, path: str, store: Store, *, is_passed: bool) -> None:
        url = pipeline_url(found)
        if (path, url) not in self._found and next(iter(store.list("")), None) is not None:
            self._found[path, url] = SinkFiles(
                store=store,
                checkpoint=Checkpoint(self.open_place(url)),
                pipeline=found.pipeline,
                cutoff=store_time(store) - self.age,
                is_passed=is_passed,
            )


def pipeline_url(found: FoundCheckpoint) -> str:
    """URL of the checkpoint of the pipeline; a backfill has its own below that."""
    return found.url if found.backfill_id is None else found.url.removesuffix(f"/{backfill_prefix(found.backfill_id)}")
