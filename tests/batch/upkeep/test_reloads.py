"""``on_gap: reload``: killed anywhere, with an edited file, and while an operator resets the pipeline."""

import pytest

from support.pipelines.operated import Operated
from support.pipelines.sweeping import swept


@pytest.fixture
def behind(operated: Operated) -> Operated:
    """A pipeline whose cursor is in expired history; 20 rows were delivered, and one of them is deleted since."""
    operated.set(on_gap="reload")
    lose_history(operated)
    return operated


def lose_history(operated: Operated) -> None:
    """Two commits, of which the first expires with all before it."""
    operated.delete([len(operated.snapshot_ids())])
    operated.append([100 + len(operated.snapshot_ids())])
    *old, _ = operated.snapshot_ids()
    operated.table.refresh().maintenance.expire_snapshots().by_ids(old).commit()


def reload(operated: Operated) -> None:
    """The next batch, phase by phase."""
    operated.open().deliver()


def require_loaded_once(operated: Operated) -> None:
    """The sink ends at the table's state, and one batch alone says that readers drop the rows before it."""
    while operated.run()["batch"] is not None:
        pass
    # A process that is killed while it tries the storage leaves its trial, which only a sweep takes.
    swept(operated.storage, older_than_seconds=-60.0)
    operated.require_consistent()
    numbers = sorted(int(path.name.partition("=")[2]) for path in operated.sink.glob("batch=*"))
    loads = [number for number in numbers[1:] if operated.manifest(number)["after_snapshot_id"] is None]
    assert len(loads) == 1, loads


def test_an_open_reload_goes_on_although_gaps_are_to_fail_since(behind: Operated) -> None:
    reloaded = behind.open()
    assert (reloaded.plan.spec.after_snapshot_id, len(reloaded.plan.spec.steps)) == (None, 1)
    again = behind.set(on_gap="fail").open()
    assert again.plan == reloaded.plan
    require_loaded_once(behind)


def test_a_reset_is_refused_while_a_reload_is_open_and_otherwise_is_the_load_itself(behind: Operated) -> None:
    behind.open()
    refused = behind.command("reset", "--yes")
    assert (refused.code, "so the cursor cannot be moved" in refused.sentence) == (65, True)
    assert behind.abandon().code == 0
    assert behind.command("reset", "--yes").code == 0
    behind.require_consistent()
    loads = [number for number in range(1, 4) if behind.manifest(number)["after_snapshot_id"] is None]
    # The abandoned reload names the place after which it stayed, the reset and the load after it name none.
    assert loads == [2, 3]
