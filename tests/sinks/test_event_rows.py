import pytest

from icefloe.sinks import events as module
from icefloe.sinks.events import event_rows
from sinks.kafka.staged_changes import Staged

PAIRS = [("INSERT", 0, "x"), ("UPDATE_BEFORE", 1, "a"), ("UPDATE_AFTER", 1, "b"), ("UPDATE_BEFORE", 1, "b"),
         ("UPDATE_AFTER", 1, "c"), ("DELETE", 2, "d")]  # fmt: skip
ROWS = Staged(number=0, parts=[PAIRS]).rows_of(0)
EVENTS = [(None, "x"), ("a", "b"), ("b", "c"), ("d", None)]
ENDS = [1, 3, 5, 6]


def images(slices):
    found = []
    for each in slices:
        carriers = each.rows.column("carrier").to_pylist()
        found += [
            (None if before < 0 else carriers[before], None if after < 0 else carriers[after])
            for before, after in zip(each.befores, each.afters, strict=True)
        ]
    return found


@pytest.mark.parametrize("rows_at_once", [1, 2, 3, 4, 100])
def test_an_update_is_one_event_wherever_its_rows_are_cut(monkeypatch, rows_at_once) -> None:
    monkeypatch.setattr(module, "_MOST_ROWS", rows_at_once)
    for cut in range(ROWS.num_rows):
        slices = list(event_rows([ROWS.slice(0, cut), ROWS.slice(cut)]))
        assert images(slices) == EVENTS
        assert [end for each in slices for end in each.ends.tolist()] == ENDS


@pytest.mark.parametrize("done", range(4))
def test_events_that_are_delivered_are_skipped(monkeypatch, done) -> None:
    monkeypatch.setattr(module, "_MOST_ROWS", 2)
    slices = list(event_rows([ROWS], skip_rows=[0, *ENDS][done]))
    assert images(slices) == EVENTS[done:]
    assert [end for each in slices for end in each.ends.tolist()] == ENDS[done:]
