import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.units import format_bytes, natural, parse_bytes, parse_seconds


@given(st.text() | st.text("0123456789²٣ -+_.e") | st.integers(-(2**64), 2**70).map(str) | st.just("1" * 5000))
def test_any_text_is_a_natural_number_or_none(text):
    is_number = text.isascii() and text.isdigit() and len(text) < 20 and int(text) < 2**63
    assert natural(text) == (int(text) if is_number else None)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("0", 0), ("10 B", 10), ("2kB", 2000), ("2KiB", 2048), (" 1.5MiB ", 1572864), ("1TiB", 2**40), (7, 7)],
)
def test_a_size_is_read_with_its_unit(text, size_bytes):
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["", "MiB", "64mib", "64 MiB free", "-1", "1e3", "1,5GB", "30s"])
def test_a_text_that_is_no_size_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="is not a size such as 64MiB or 1GB"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30.0), ("250ms", 0.25), ("5m", 300.0), ("5 min", 300.0), ("1h", 3600.0), ("1d", 86400.0), (0.5, 0.5)],
)
def test_a_duration_is_read_with_its_unit(text, seconds):
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["100000d", "2400000 h", "9" * 400])
def test_a_duration_that_no_calendar_has_is_refused(text):
    with pytest.raises(ValueError, match="is too long: expected less than 100000d"):
        parse_seconds(text)


@pytest.mark.parametrize("text", ["", "s", "30 fortnights", "-5s", "64MiB", "nan", "inf"])
def test_a_text_that_is_no_duration_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="is not a duration such as 30s, 5m or 1h"):
        parse_seconds(text)


@given(st.integers(min_value=0, max_value=2**50))
def test_every_number_of_bytes_reads_as_itself(size_bytes):
    assert parse_bytes(size_bytes) == parse_bytes(f"{size_bytes}B") == size_bytes


def test_a_size_beyond_the_largest_unit_is_still_written():
    assert format_bytes(2**51) == "2048.0 TiB"
