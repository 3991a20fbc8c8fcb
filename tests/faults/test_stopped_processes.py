"""A real process that is stopped (SIGSTOP) and continued behaves as the actors of the simulation do."""

import signal
from pathlib import Path

import pytest

from faults.place import SCENARIOS
from faults.stopped_process import stopped_process
from support.tables.table_states import TableStates
from support.tiers import extended

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("load", 9),
        ("changes", 80),
        *(extended("load", number) for number in (3, 40)),
        *(extended("changes", number) for number in (50, 150)),
        *(extended("damaged", number) for number in (5, 110)),
        *(extended("moves", number) for number in (110, 150)),
    ],
)
def test_a_process_that_was_stopped_while_others_went_on_changes_nothing(
    name: str, number: int, tmp_path: Path, states: TableStates
) -> None:
    place = SCENARIOS[name].place(tmp_path / "place", states)
    with stopped_process(place, number) as late:
        place.others()
        delivered = place.delivered()
        late.send_signal(signal.SIGCONT)
        _, said = late.communicate(timeout=120)
        assert late.returncode in (0, 75), said
    place.require_exact()
    assert delivered.items() <= place.delivered().items()
