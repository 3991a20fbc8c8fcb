"""Runs that are stopped (SIGSTOP), and go on after other runs have finished this batch and the next.

    python -m cli.stopped_runs FOLDER SCENARIO PLACES FIRST STEP

Tries every STEP-th place from FIRST on. PLACES are ``plan``: right before and right after each read and write of the
checkpoint that a plan does; or ``writes``: right before and right after whatever any task writes. Prints one JSON line
for each place: what it was, how the late run ended, and how the others did. The processes are forked from this one,
which has imported everything and touched no store, so that a place costs a second.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.credentials import Credentials
from icefloe.batch.open.range_request import RangeRequest
from icefloe.engines.run_batch import run_batch
from icefloe.errors import IcefloeError
from icefloe.pipeline.pipeline_file import load_pipeline
from icefloe.storage.keys import join_url
from icefloe.storage.object_store import ObjectStore
from support.catalogs import sql_properties
from support.pipelines.workspace import Workspace

WATCHED = {"plan": ("get", "create", "put", "size"), "writes": ("create", "put")}
CRASHED = 99


class Stops:
    """Stops this process at one of the places."""

    def __init__(self, places: str, place: int) -> None:
        self._places, self._place, self._seen, self._is_planning = places, place, 0, False

    @contextmanager
    def observe(self, task: str) -> Iterator[None]:
        """For `run_batch`."""
        self._is_planning = task == "plan"
        yield
        self._is_planning = False

    def watch(self, name: str, told: int) -> None:
        whole: Callable[..., Any] = getattr(ObjectStore, name)

        def watched(store: ObjectStore, key: str, *arguments: Any) -> Any:
            url = join_url(store.url, key)
            self._pass(f"before {name} {url}", url, told)
            answer = whole(store, key, *arguments)
            self._pass(f"after {name} {url}", url, told)
            return answer

        setattr(ObjectStore, name, watched)

    def _pass(self, what: str, url: str, told: int) -> None:
        is_place = self._is_planning and "/checkpoints/" in url if self._places == "plan" else True
        if not is_place or "_probe" in url or url.endswith("status.json"):
            return
        self._seen += 1
        if self._seen == self._place:
            os.write(told, what.encode())
            os.kill(os.getpid(), signal.SIGSTOP)


def table_of(folder: Path) -> Table:
    return SqlCatalog("lab", **sql_properties(folder)).load_table("db.events")


def workspace_of(folder: Path) -> Workspace:
    return Workspace(folder=folder, table=table_of(folder))


def deliver(pipeline: Path, request: RangeRequest | None = None, stops: Stops | None = None) -> None:
    session = PipelineSession.open(load_pipeline(pipeline), credentials=Credentials(), environ=os.environ)
    observed: dict[str, Any] = {"observe": stops.observe} if stops else {}
    run_batch(session, request, environ=os.environ, **observed)


def forked(function: Callable[[], object]) -> int:
    """The id of a child that runs a function and exits with 0, with the exit code of an error, or with `CRASHED`."""
    child = os.fork()
    if child:
        return child
    code = CRASHED
    try:
        function()
        code = 0
    except IcefloeError as error:
        sys.stderr.write(f"{error}\n")
        code = error.exit_code
    except BaseException:  # noqa: BLE001 - the child ends here, whatever it was
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Scenario:
    """The setup before the late run begins, and the range that it is asked for."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name

    def prepare(self, stem: str) -> Path:
        """The pipeline of one place, at the point where the late run begins."""
        workspace = workspace_of(self.folder)
        keys: dict[str, Any] = {}
        if self.name == "parts":
            keys = {"max_bytes_per_batch": 1}
        elif self.name == "from_now":
            keys = {"initial_load": "from_now"}
        elif self.name == "reload":
            keys = {"on_gap": "reload"}
        pipeline = workspace.pipeline(stem, **keys)
        if self.name in ("parts", "changes", "reload"):
            deliver(pipeline)
        if self.name == "changes":
            workspace.update(1, value=float(len(workspace.table.metadata.snapshots)))
        if self.name == "reload":
            expired = workspace.head()
            workspace.append(1_000 + len(workspace.table.metadata.snapshots))
            workspace.append(2_000 + len(workspace.table.metadata.snapshots))
            workspace.table.maintenance.expire_snapshots().by_id(expired).commit()
        return pipeline

    def others(self, pipeline: Path) -> None:
        """Finish this batch, then the next one with something new in it."""
        deliver(pipeline, self.request())
        workspace = workspace_of(self.folder)
        workspace.append(10_000 + len(workspace.table.metadata.snapshots))
        deliver(pipeline, self.request())

    def request(self) -> RangeRequest | None:
        """A backfill asks for the whole history up to the snapshot that was the head when all began."""
        if self.name != "backfill":
            return None
        first = table_of(self.folder).metadata.snapshots[1].snapshot_id
        return RangeRequest(up_to_snapshot_id=first)


def try_place(scenario: Scenario, places: str, place: int) -> dict[str, Any] | None:
    """None where there is no such place any more."""
    stem = f"{scenario.name}{place}"
    pipeline = scenario.folder / f"{stem}.yaml"
    if ended(forked(lambda: scenario.prepare(stem))):
        raise SystemExit("the scenario could not be prepared")
    heard, told = os.pipe()

    def late() -> None:
        stops = Stops(places, place)
        for name in WATCHED[places]:
            stops.watch(name, told)
        deliver(pipeline, scenario.request(), stops)

    child = forked(late)
    os.close(told)
    _, status = os.waitpid(child, os.WUNTRACED)
    where = os.read(heard, 1000).decode() if os.WIFSTOPPED(status) else ""
    os.close(heard)
    if not os.WIFSTOPPED(status):
        return None
    others = ended(forked(lambda: scenario.others(pipeline)))
    os.kill(child, signal.SIGCONT)
    code = ended(child)
    # Whatever the late run left open, the next one finishes.
    after = ended(forked(lambda: deliver(pipeline, scenario.request())))
    return {"stem": stem, "place": place, "where": where, "late": code, "others": others, "after": after}


def main() -> None:
    folder, name, places, first, step = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    place = first
    while (found := try_place(Scenario(folder, name), places, place)) is not None:
        print(json.dumps(found), flush=True)
        place += step


if __name__ == "__main__":
    main()
