import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.pipeline.yaml_file import read_scalar


@pytest.mark.parametrize(
    "text", ["off", "on", "yes", "no", "Off", "y", "n", "2024-01-01", "1:30", "1_000", "0b1", ".inf", "1e999"]
)
def test_text_that_yaml_1_1_would_convert_stays_text(text):
    assert read_scalar(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [("", None), ("~", None), ("null", None), ("TRUE", True), ("false", False), ("010", 10), ("0o10", 8), ("-7", -7),
     ("0xff", 255), (".5", 0.5), ("1.", 1.0), ("-2.5e-1", -0.25)],
)  # fmt: skip
def test_the_core_schema_of_yaml_1_2_is_read(text, value):
    assert read_scalar(text) == value
    assert type(read_scalar(text)) is type(value)


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_a_snapshot_id_keeps_every_digit(snapshot_id):
    assert read_scalar(str(snapshot_id)) == snapshot_id


@given(st.text())
def test_any_text_is_read_without_an_error(text):
    read_scalar(text)
