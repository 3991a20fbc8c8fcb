import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.pipeline.environment import expand
from icefloe.pipeline.option_values import ExpandedText

PIECES = st.lists(st.sampled_from(["a = ", "'", " or b > ", "${A}", "${B}", "$${", "$"]), max_size=8).map("".join)
VALUES = st.fixed_dictionaries({name: st.text("xyz' $", max_size=5) for name in "AB"})


@given(PIECES, VALUES)
def test_every_place_of_the_text_has_one_in_the_file(written: str, values: dict[str, str]) -> None:
    text = expand(written, values)
    expanded = ExpandedText(text=text, written=written)
    places = [expanded.written_place(place) for place in range(len(text) + 1)]
    assert all(0 <= place <= len(written) for place in places)
    assert places == sorted(places)
    assert text == written or "${" not in written or places[len(text)] == len(written)


@pytest.mark.parametrize(
    ("written", "values", "place", "expected"),
    [
        ("a = 1 or", {}, 8, 8),
        ("a = '${A}' or", {"A": "secret"}, 3, 3),
        ("a = '${A}' or", {"A": "secret"}, 8, 5),
        ("a = '${A}' or", {"A": "secret"}, 13, 11),
        ("a = ${A} or b = ${B} or", {"A": "1", "B": "22"}, 11, 14),
        ("a = ${A} or b = ${B} or", {"A": "1", "B": "22"}, 14, 16),
        ("a = '$${' or", {}, 9, 10),
    ],
)
def test_a_place_in_a_value_is_that_of_its_reference(
    written: str, values: dict[str, str], place: int, expected: int
) -> None:
    assert ExpandedText(text=expand(written, values), written=written).written_place(place) == expected


def test_text_of_the_pipeline_file_may_be_shown() -> None:
    expanded = ExpandedText(
        text="a = 'it''s' or b = TRUE or c = 'NAME'", written="a = 'it''s' or b = TRUE or c = '${NAME}'"
    )
    assert [expanded.says(part) for part in ("it's", "True", "NAME")] == [True, True, False]
    assert ExpandedText.of("a = 007", None).says("7.0")
