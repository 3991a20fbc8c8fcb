"""Files of an open batch that vanish or change while its run is at any document: an error, never wrong rows."""

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.place import SCENARIOS, Place
from icefloe.errors import IcefloeError, TerminalError
from support.fakes.gates import GatedRun, gated_stores
from support.tables.table_states import TableStates

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MOST_RUNS = 4


def delete_all(shuffle: Path, chosen: Path) -> None:
    # Threads of the run write meanwhile.
    shutil.rmtree(shuffle, ignore_errors=True)


def delete(shuffle: Path, chosen: Path) -> None:
    chosen.unlink()


def empty(shuffle: Path, chosen: Path) -> None:
    chosen.write_bytes(b"")


def cut(shuffle: Path, chosen: Path) -> None:
    chosen.write_bytes(chosen.read_bytes()[:-3])


def flip(shuffle: Path, chosen: Path) -> None:
    content = bytearray(chosen.read_bytes())
    if content:
        content[len(content) // 2] ^= 0xFF
    chosen.write_bytes(content)


DAMAGES: list[Callable[[Path, Path], None]] = [delete_all, delete, empty, cut, flip]


def follow_advice(place: Place, error: IcefloeError | None) -> None:
    """Runs again, and does what a final error says: which task to run, or what to delete."""
    for _ in range(MOST_RUNS):
        if isinstance(error, TerminalError) and not re.search("clear the task plan|run coalesce", error.sentence):
            assert re.search("delete everything below|section on empty or cut documents", error.sentence), (
                error.sentence
            )
            shutil.rmtree(place.folder / "storage/shuffle", ignore_errors=True)
        try:
            place.deliver()
        except IcefloeError as again:
            error = again
        else:
            return
    pytest.fail(f"it goes on to fail: {error}")


@pytest.mark.parametrize(("damage", "number"), list(zip(DAMAGES, (150, 75, 110, 130, 170), strict=True)))
def test_a_folder_that_is_damaged_at_some_document_costs_a_run_at_most(
    damage: Callable[[Path, Path], None], number: int, tmp_path: Path, states: TableStates
) -> None:
    place = SCENARIOS["changes"].place(tmp_path / "changes", states)
    shuffle = place.folder / "storage/shuffle"
    with gated_stores():
        late = GatedRun(number, place.deliver)
        is_stopped = late.is_stopped()
        files = sorted(path for path in shuffle.rglob("*") if path.is_file()) if is_stopped else []
        chosen = random.Random(number).choice(files) if files else None
        if chosen is not None:
            damage(shuffle, chosen)
        error = late.finish()
    assert isinstance(error, IcefloeError | None), (late.where, chosen, error)
    follow_advice(place, error)
    place.require_exact(is_swept=True)
