"""Whichever write, sync or link of a run fails: the run says so and may be tried again, and the next run is exact."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults.place import SCENARIOS
from icefloe.errors import TransientError
from icefloe.sinks.dead_letters import DeadLetter, DeadLetterFolder
from icefloe.storage.location import open_store
from support.fakes.disks import FAULTS, DiskFault, failing_disk
from support.pipelines.leftovers import left_by_writers
from support.pipelines.workspace import icefloe
from support.tables.table_states import TableStates

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LATER = 31
"""So many calls later than that of a load is the one that fails in the run of changes, if there are as many."""


def require_repeatable(struck: list[str], fault: DiskFault, error: BaseException | None) -> None:
    """A short write goes on where it stopped; what only tidies up may fail unseen."""
    assert isinstance(error, TransientError | None), (struck, error)
    assert error is None or os.strerror(fault.code or 0) in error.sentence, (struck, error)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("name", ["load", "changes"])
def test_a_run_whose_disk_fails_at_some_call_can_be_repeated(
    fault: DiskFault, name: str, tmp_path: Path, states: TableStates
) -> None:
    nth = 1 + FAULTS.index(fault) + (LATER if name == "changes" else 0)
    place = SCENARIOS[name].place(tmp_path / "place", states)
    with failing_disk(fault, nth, place.folder) as struck:
        error = error_of(place.deliver)
    assert struck or nth > LATER
    require_repeatable(struck, fault, error)
    # What could not be removed stays until it is old.
    assert left_by_writers(place.folder) == [] or fault.call == "unlink"
    # It may have been the cleanup, which the next one or a sweep makes up for.
    place.require_exact(is_swept=True)


def error_of(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - judged by the caller
        return error
    return None


@pytest.mark.parametrize(
    ("command", "fault", "nth"),
    [
        (["reset", "--yes"], "write ENOSPC", 1), (["set-cursor", "--yes"], "write EDQUOT", 2),
        (["abandon", "--yes"], "fsync EIO", 5), (["sweep", "--yes"], "open EMFILE", 4),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else None,
)  # fmt: skip
def test_a_command_whose_disk_fails_at_some_call_can_be_repeated(
    command: list[str], fault: str, nth: int, tmp_path: Path, states: TableStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = SCENARIOS["changes"].place(tmp_path / "place", states)
    if command[0] == "abandon":
        place.damage()
    words: list[Any] = [place.stores.url + "/storage" if command[0] == "sweep" else place.pipeline]
    if command[0] == "set-cursor":
        words += ["--snapshot-id", place.shown.table().metadata.snapshots[-1].snapshot_id]
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(place.folder))
    [found] = [each for each in FAULTS if str(each) == fault]
    with failing_disk(found, nth, place.folder) as struck:
        done = icefloe(command[0], *words, *command[1:])
    assert struck
    assert done.code in (0, 75), (struck, done)
    assert done.code == 0 or os.strerror(found.code or 0) in done.err, (struck, done)
    again = icefloe(command[0], *words, *command[1:])
    assert again.code == 0, (struck, again)
    # Commits that an operator skipped come by a load.
    assert command[0] != "set-cursor" or icefloe("reset", place.pipeline, "--yes").code == 0
    assert [icefloe(name, place.pipeline).code for name in ("run", "run", "verify")] == [0, 0, 0]
    place.require_swept()


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.call != "link"], ids=str)
def test_dead_letters_whose_disk_fails_are_the_old_ones_or_the_new_ones(fault: DiskFault, tmp_path: Path) -> None:
    folder = DeadLetterFolder(open_store(tmp_path.as_uri()), limit=10)
    old, new = [letter("old")], [letter("new"), letter("newer")]
    for nth in range(1, 20):
        folder.put(7, 0, old)
        with failing_disk(fault, nth, tmp_path) as struck:
            try:
                folder.put(7, 0, new)
            except TransientError:
                assert struck
        assert [letter for _, letter in folder.letters(7)] in (old, new)
        folder.put(7, 0, new)
        assert [letter for _, letter in folder.letters(7)] == new
        assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["part-00000.jsonl"]
        if not struck:
            break
    assert nth > 1, f"{fault} never struck"


def letter(reason: str) -> DeadLetter:
    return DeadLetter(id="1:7", version=3, operation="index", document={"id": 7}, reason=reason)
