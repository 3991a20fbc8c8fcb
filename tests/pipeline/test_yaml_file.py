import contextlib
import pickle
import re

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from icefloe.errors import TerminalError
from icefloe.pipeline.yaml_file import Problem, file_error, load_yaml, parse_yaml, read_scalar

KEYS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Co", "Cn")), max_size=8)
# Numbers of YAML 1.2 that PyYAML, which writes 1.1, leaves unquoted when they are text.
NUMBERS_OF_1_2_ONLY = re.compile(r"[-+]?[0-9_.]+[eE][-+]?[0-9]+|0o[0-7]+")
TEXTS = st.text(st.characters(codec="ascii"), max_size=12).filter(lambda text: not NUMBERS_OF_1_2_ONLY.fullmatch(text))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3),
    max_leaves=12,
)


def refusal(call, *arguments, **keywords):
    with pytest.raises(TerminalError) as caught:
        call(*arguments, **keywords)
    return caught.value.sentence


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(KEYS.filter(lambda key: key != "catalog"), VALUES, max_size=5), st.booleans())
def test_yaml_of_pyyaml_is_read_back(data, is_flow):
    text = yaml.safe_dump(data, default_flow_style=is_flow, allow_unicode=True)
    assert parse_yaml(text, path="p").data == data


@given(st.lists(st.sampled_from(["", "# a remark", "  "]), max_size=6), st.sampled_from(["\n", "\r\n"]))
def test_the_line_of_a_key_is_counted_from_one(above, newline):
    text = newline.join([*above, "a:", "  - b: 1"])
    file = parse_yaml(text, path="p")
    assert file.line_of(("a",)) == len(above) + 1
    assert file.line_of(("a", 0, "b")) == len(above) + 2


def test_the_line_of_a_missing_key_is_that_of_the_nearest_key_above():
    file = parse_yaml("a: 1\nb:\n  c: 1\n", path="p")
    assert (file.line_of(("b", "x", "y")), file.line_of(("x",)), file.line_of(())) == (2, 1, 1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a:\n\tb: 1\n", "p:2: not valid YAML: .*; indent with spaces"),
        ("a: 1\nschedule: @continuous\n", "p:2: not valid YAML: .*put a value in quotes that .* begins with @"),
        ("sink: {path: ${OUT}/x}\n", r"p:1: not valid YAML: .*put a value in quotes that has .*\$\{"),
        ("a: b: c\n", "p:1: not valid YAML: .*put a value in quotes that has ': '"),
        ("a: [1,\nb: 3\n", "p:2: .*flow sequence that begins in line 1"),
        ("a: 'x\n\n\n", "p:1: .*quoted scalar that begins in line 1"),
        ("a: 1\nb: c: d\n", "p:2: not valid YAML"),
        ("a: &x [1]\nb: *x\n", r"p:2: the alias \*x cannot be used here: write the value again"),
        ("a: 1\n---\nb: 2\n", "p:2: not valid YAML: but found another document"),
        ("a: [" + 20_000 * "0," + "]\n", "p:1: the file has more than 20000 values"),
        ("a: 1\nb: \x07\n", r"p:2: the character U\+0007 is not allowed"),
    ],
)
def test_a_syntax_error_names_file_and_line_and_says_what_to_do(text, sentence):
    with pytest.raises(TerminalError, match=sentence):
        parse_yaml(text, path="p")


def test_a_file_that_is_not_there_or_no_text_is_one_sentence(tmp_path, write):
    missing = tmp_path / "no.yaml"
    assert refusal(load_yaml, missing) == (
        f"{missing}: the pipeline file cannot be read: No such file or directory; check the path and its permissions"
    )
    assert "cannot be read: Is a directory" in refusal(load_yaml, tmp_path)
    assert refusal(load_yaml, write(b"a: 1\nb: \xff\n")).endswith(
        "flights.yaml:2: the file is not UTF-8 text: save it as UTF-8"
    )
    assert "holds at most 1 MiB" in refusal(load_yaml, write(b"#" * (2**20 + 1)))


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(write):
    file = load_yaml(write(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n"))
    assert (file.data, file.line_of(("b",))) == ({"a": 1, "b": 2}, 2)


@given(st.text(max_size=40))
def test_any_text_is_either_read_or_refused(text):
    with contextlib.suppress(TerminalError):
        file = parse_yaml(text, path="p")
        assert pickle.loads(pickle.dumps(file)) == file


@pytest.mark.parametrize(
    ("written", "text"),
    [("true", "true"), ("True", "true"), ("FALSE", "false"), ("017", "017"), ("0x1F", "0x1F"), ("1e3", "1e3"),
     ("60.0", "60.0"), ("+5", "+5"), ("'true'", "true"), ("off", "off"), ("1.", "1.")],
)  # fmt: skip
@pytest.mark.parametrize("path", [("catalog",), ("spark", "conf")])
@pytest.mark.parametrize("form", ["{{k: {0}}}", "&a {{k: {0}, x: y}}"])
def test_properties_are_text_as_they_are_written(written: str, text: str, path: tuple[str, ...], form: str) -> None:
    lines = [f"{'  ' * depth}{key}:" for depth, key in enumerate(path)]
    data = parse_yaml("\n".join(lines) + " " + form.format(written), path="p").data
    for key in path:
        data = data[key]
    assert data["k"] == text


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


def sentences(text):
    return [problem.at("p") for problem in parse_yaml(text, path="p").problems]


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a: !!str 5\nb: '5'\nc: \"off\"\nd: |\n  x\n", {"a": "5", "b": "5", "c": "off", "d": "x\n"}),
        ("~\n", None),
    ],
    ids=["text by tag or quotes", "nothing"],
)  # fmt: skip
def test_tags_and_quotes_are_read(text, data):
    file = parse_yaml(text, path="p")
    assert (file.data, file.problems) == (data, ())


def test_a_duplicate_key_is_reported_with_both_lines_and_the_first_counts():
    file = parse_yaml("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n", path="p")
    assert sorted(problem.at("p") for problem in file.problems) == [
        "p:4: b.c is in line 3 already: keep one of the two",
        "p:5: a is in line 1 already: keep one of the two",
    ]
    assert file.data == {"a": 1, "b": {"c": 1}}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: !env X\n", "p:1: the tag !env means nothing in a pipeline file: remove it"),
        ("a: !!python/name:os.system {}\n", "p:1: the tag tag:yaml.org,2002:python/name:os.system means nothing"),
        ("? [1, 2]\n: b\n", "p:1: a key must be text: this one is a list or a mapping"),
    ],
)
def test_yaml_without_meaning_in_a_pipeline_file_is_reported(text, sentence):
    assert sentences(text)[0].startswith(sentence)


@pytest.mark.parametrize(
    "text", ["[" * 500 + "]" * 500, "[" * 500_000, "{a: " * 200_000, "? " * 300_000], ids=["500", "[", "{", "?"]
)
def test_nesting_without_end_is_an_error_and_neither_a_crash_nor_hours(text):
    with pytest.raises(TerminalError, match="p:1: the values are nested more than 20 levels deep"):
        parse_yaml(text, path="p")


def problem(line, key="k"):
    return Problem(line=line, key=key, sentence=f"{key} is wrong")


def test_the_error_joins_all_problems_and_carries_the_first_as_facts():
    error = file_error("a.yaml", [problem(4, "z"), problem(2, "y")])
    assert error.sentence == "a.yaml:2: y is wrong\na.yaml:4: z is wrong"
    assert (error.path, error.line, error.key, error.exit_code) == ("a.yaml", 2, "y", 65)
