"""Faults that the kernel gives to a real process.

They end as the same faults in test_disk_faults.py do, which meets them at every call.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from faults.place import SCENARIOS, Place, Stores
from support.missing import missing
from support.pipelines.workspace import ROOT, Outcome, icefloe
from support.sinks.document_folder import registered
from support.tables.table_states import TableStates
from support.tiers import extended

pytestmark = pytest.mark.slow

FEW_FILES = 40
"""Open files that a process may have: a run needs about half as many."""


def run(place: Place, limits: Mapping[int, int] | None = None) -> Outcome:
    """The late run of a place as a process."""

    def limit() -> None:
        for name, value in (limits or {}).items():
            resource.setrlimit(name, (value, value))

    done = subprocess.run(
        [sys.executable, "-B", "-m", "icefloe", "run", str(place.pipeline), "--json"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "plugins")}, capture_output=True, text=True, timeout=120,
        preexec_fn=limit,
    )  # fmt: skip
    return Outcome(code=done.returncode, out=done.stdout, err=done.stderr)


def test_a_process_that_may_open_few_files_delivers_or_asks_for_more(tmp_path: Path, states: TableStates) -> None:
    place = SCENARIOS["changes"].place(tmp_path / "place", states)
    codes = [run(place, limits={resource.RLIMIT_NOFILE: limit}).code for limit in (FEW_FILES // 2, FEW_FILES)]
    assert set(codes) <= {0, 75}
    assert codes[-1] == 0, "it needs more than it did"
    place.require_exact()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, on which a test leaves as much room as it wants."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        missing("this machine mounts no tmpfs", done.stderr.decode().strip())
    yield folder
    # Lazily, because a file there may still be mapped: a mount must not outlive its test.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def leave_room(disk: Path, free_bytes: int | None) -> None:
    """Leaves that many bytes free; None: enough of them."""
    found = os.statvfs(disk)
    size = "16m" if free_bytes is None else (found.f_blocks - found.f_bfree) * found.f_frsize + free_bytes
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


@pytest.mark.parametrize(("name", "pages"), [("changes", 9), *(extended("load", pages) for pages in (1, 4, 8))])
def test_a_batch_that_fills_its_disk_goes_on_when_there_is_room(
    name: str, pages: int, tmp_path: Path, states: TableStates, disk: Path
) -> None:
    place = SCENARIOS[name].place(tmp_path / "place", states, Stores(folder=disk, url=f"file://{disk}"))
    leave_room(disk, pages * resource.getpagesize())
    full = run(place)
    assert full.code == 75, full
    assert "No space left on device; try again, and check this machine's disk" in full.err.splitlines()[-1]
    leave_room(disk, None)
    place.require_exact()


def test_a_comparison_that_fills_its_disk_says_so_and_leaves_nothing(
    tmp_path: Path, states: TableStates, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(disk))
    with registered():
        place = SCENARIOS["load"].place(tmp_path / "place", states)
        place.write_pipeline(sink={"type": "documents", "folder": str(tmp_path / "documents")})
        place.deliver()
        leave_room(disk, resource.getpagesize())
        full = icefloe("verify", place.pipeline)
        assert full.code == 75, full
        assert "No space left on device; free space there, or set SPARK_LOCAL_DIRS" in full.err
        assert list(disk.iterdir()) == []
        leave_room(disk, None)
        assert icefloe("verify", place.pipeline).code == 0
