"""Whichever write, sync or link of a delivery fails: the run may be tried again, and the next one is exact."""

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from faults.delivering import DELIVERING, sinks_in_memory
from faults.recorded_table import recorded_states
from faults.test_disk_faults import fail_at
from icefloe.errors import TransientError
from icefloe.sinks.dead_letters import DeadLetter, DeadLetterFolder
from icefloe.storage.location import open_store
from support.fakes.disks import FAULTS, DiskFault, failing_disk
from support.tables.table_states import TableStates
from support.tiers import places, walk

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TableStates]:
    with sinks_in_memory():
        yield recorded_states(tmp_path_factory.mktemp("deliveries"))


@pytest.mark.slow
@pytest.mark.parametrize("fault", [walk(fault, name=str(fault)) for fault in FAULTS])
@pytest.mark.parametrize("name", ["load", "changes"])
def test_a_delivery_whose_disk_fails_at_any_call_can_be_repeated(
    fault: DiskFault, name: str, tmp_path: Path, states: TableStates
) -> None:
    numbers = places(53)
    assert list(takewhile(lambda nth: fail_at(fault, DELIVERING[name], nth, tmp_path, states), numbers))


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
        assert list(folder.letters(7)) in (old, new)
        folder.put(7, 0, new)
        assert list(folder.letters(7)) == new
        assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["part-00000.jsonl"]
        if not struck:
            break
    assert nth > 1, f"{fault} never struck"


def letter(reason: str) -> DeadLetter:
    return DeadLetter(id="1:7", version=3, operation="index", document={"id": 7}, reason=reason)
