import pytest
from croniter import croniter
from hypothesis import given
from hypothesis import strategies as st

from icefloe.pipeline.validation import schedule_fault

NUMBERS = st.integers(min_value=0, max_value=70).map(str)
WORDS = st.sampled_from(["*", "?", "L", "l3", "5L", "1#2", "6#6", "mon", "SUN", "jan", "DEC", "x", "", "15W", "3#1"])
ATOMS = NUMBERS | WORDS
ITEMS = ATOMS | st.builds("{}-{}".format, ATOMS, ATOMS) | st.builds("{}/{}".format, ATOMS, NUMBERS)
FIELDS = ITEMS | st.lists(ITEMS, min_size=2, max_size=3).map(",".join)


@given(st.lists(FIELDS | st.just("*"), min_size=5, max_size=6).map(" ".join))
def test_every_accepted_schedule_can_be_read_by_airflow(text):
    if schedule_fault(text) is None:
        assert croniter.is_valid(text)


@pytest.mark.parametrize(
    "text",
    ["@continuous", "@once", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly", "* * * * *",
     "*/5 8-17 1,15 jan-mar MON-fri", "0 0 L * *", "0 0 ? * 5#3", "0 0 * * 7", "0 0 * * * */10", " 0  0 * * * ",
     "0 0 29 2 *", "0 0 29 2 1#5"],
)  # fmt: skip
def test_a_valid_schedule_passes(text):
    assert schedule_fault(text) is None


CRON = 'must be "@continuous", a cron expression of 5 or 6 fields such as "0 * * * *", or {asset: NAME}, not'


@pytest.mark.parametrize(
    ("text", "fault"),
    [("60 * * * *", CRON), ("* * 0 * *", CRON), ("*/0 * * * *", CRON), ("0 R * * *", CRON), ("r(0-9) * * * *", CRON),
     ("* * * *", CRON), ("every hour", "not 'every hour'"), ("@minutely", "must be one of @continuous, @once"),
     ("0 0 31 2 *", "has '0 0 31 2 *', which never comes: no year has such a day"),
     ("0 0 31 4,6,9,11 *", "which never comes")],
)  # fmt: skip
def test_a_wrong_schedule_says_what_is_expected(text, fault):
    assert fault in str(schedule_fault(text))
