import pytest

from demo.event_topic import differences
from demo.flights_table import TableChange

CHANGES = [TableChange(title="load", inserts=10), TableChange(title="more", inserts=2, updates=3, deletes=1)]
RIGHT = {"r": 10, "c": 2, "u": 3, "d": 1}


def test_a_topic_with_an_event_for_each_change_is_right() -> None:
    assert differences(RIGHT, CHANGES, 11) == []


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"u": 4}, "the topic holds 4 events u, not 3"),
        ({"d": 0}, "the topic holds 0 events d, not 1"),
        ({"r": 20}, "the topic holds 20 events r, not 10"),
    ],
)
def test_a_missing_or_repeated_event_is_named(wrong: dict[str, int], sentence: str) -> None:
    assert differences(RIGHT | wrong, CHANGES, 11) == [sentence]


def test_events_that_leave_another_number_of_rows_than_the_table_are_wrong() -> None:
    assert differences(RIGHT, CHANGES, 12) == ["the events leave 11 rows, and the table has 12"]
