import pytest
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue
from pyiceberg.expressions.parser import parse

from icefloe.errors import TerminalError
from icefloe.iceberg.filters.filter_binding import comparisons, parse_filter


@pytest.mark.parametrize("text", ["a = 1", 'a.b in (1, 2) and "c d" is not null', "a like 'x%'", "a between 1 and 2"])
def test_an_expression_is_what_pyiceberg_reads(text: str) -> None:
    assert parse_filter(text) == parse(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('"a.b" = \'P.\'', "a.b"), ('"a.b".c = \'P.\'', "a.b.c"), ('a."b.c d" = \'P.\'', "a.b.c d"),
        ('"it\'s.a" = \'P.\'', "it's.a"), ("'P.' = \"a.b\"", "a.b"), ('".." = \'P.\'', ".."),
    ],
)  # fmt: skip
def test_a_quoted_name_has_its_dots_and_a_text_too(text: str, name: str) -> None:
    assert dict(comparisons(parse_filter(text))) == {name: ("P.",)}


def test_a_quote_inside_a_text_begins_no_name() -> None:
    found = comparisons(parse_filter("""a = 'it''s "1.0"' and b = '"' and "c.d" = '"2.0'"""))
    assert dict(found) == {"a": ('it\'s "1.0"',), "b": ('"',), "c.d": ('"2.0',)}


def test_true_and_false_are_filters() -> None:
    assert (parse_filter("true"), parse_filter("FALSE")) == (AlwaysTrue(), AlwaysFalse())


@pytest.mark.parametrize("text", ["a = 1 or", "a = 1e5", "a = ", "a in ()", '"a.b = 1', "a = 1; drop table t"])
def test_a_text_that_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(TerminalError, match="cannot be read as an Iceberg expression: write one such as") as refused:
        parse_filter(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_text_is_refused(text: str) -> None:
    with pytest.raises(TerminalError, match="filter is empty"):
        parse_filter(text)


@pytest.mark.parametrize("text", ["a = 1 and true", "not false", "a = 1 or not true"])
def test_true_inside_an_expression_is_refused(text: str) -> None:
    with pytest.raises(TerminalError, match="uses true or false inside"):
        parse_filter(text)


@pytest.mark.parametrize("text", ["a like '%x'", "a not like 'x%y'"])
def test_a_pattern_with_a_wildcard_inside_is_refused(text: str) -> None:
    with pytest.raises(TerminalError, match="only a % at its end is a wildcard"):
        parse_filter(text)
