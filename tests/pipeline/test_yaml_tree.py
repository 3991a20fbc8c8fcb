import pytest

from icefloe.pipeline.yaml_file import PipelineFileError, parse_yaml


def sentences(text):
    return [problem.at("p") for problem in parse_yaml(text, path="p").problems]


def test_a_duplicate_key_is_reported_with_both_lines_and_the_first_counts():
    file = parse_yaml("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n", path="p")
    assert [problem.at("p") for problem in file.problems] == [
        "p:4: b.c is in line 3 already: keep one of the two",
        "p:5: a is in line 1 already: keep one of the two",
    ]
    assert file.data == {"a": 1, "b": {"c": 1}}


def test_an_alias_repeats_the_value_of_its_anchor():
    file = parse_yaml("a: &x {b: [1, two]}\nc: *x\nd: &n 5\ne: [*n, *n]\n", path="p")
    assert file.data == {"a": {"b": [1, "two"]}, "c": {"b": [1, "two"]}, "d": 5, "e": [5, 5]}
    assert file.problems == ()


def test_an_anchor_may_be_given_again_and_an_alias_means_the_last_one_above_it():
    assert parse_yaml("a: &x 1\nb: *x\nc: &x 2\nd: *x\n", path="p").data == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_every_fault_is_reported_not_only_the_first():
    assert sentences("a: *nope\nb: !!int 5\nc: {d: 1, d: 2}\n") == [
        "p:1: the alias *nope has no anchor: write &nope at a value above it",
        "p:2: the tag tag:yaml.org,2002:int means nothing in a pipeline file: remove it",
        "p:3: c.d is in line 3 already: keep one of the two",
    ]


def test_the_lines_below_an_alias_are_those_where_the_keys_are_written():
    file = parse_yaml("a: &x\n  b: 1\nc: *x\n", path="p")
    assert (file.line_of(("c",)), file.line_of(("c", "b"))) == (3, 2)


def test_the_keys_next_to_a_merged_mapping_win():
    file = parse_yaml("a: &x {b: 1, c: 2}\nd: &y {b: 9, e: 3}\nf:\n  <<: [*x, *y]\n  c: 7\n", path="p")
    assert file.data["f"] == {"b": 1, "e": 3, "c": 7}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: *nope\n", "p:1: the alias *nope has no anchor: write &nope at a value above it"),
        ("a: &x [*x]\n", "p:1: the alias *x has no anchor: write &x at a value above it"),
        ("a: 1\n---\nb: 2\n", "p:2: a pipeline file holds one document: remove this second one, which '---' begins"),
        ("a: !env X\n", "p:1: the tag !env means nothing in a pipeline file: remove it"),
        ("a: !!python/name:os.system {}\n", "p:1: the tag tag:yaml.org,2002:python/name:os.system means nothing"),
        ("? [1, 2]\n: b\n", "p:1: a key must be text: this one is a list, a mapping or an alias"),
        ("a:\n  <<: 5\n", "p:2: '<<' must be followed by an alias of a mapping"),
    ],
)
def test_yaml_without_meaning_in_a_pipeline_file_is_reported(text, sentence):
    assert sentences(text)[0].startswith(sentence)


def test_text_by_tag_or_quotes_stays_text():
    assert parse_yaml("a: !!str 5\nb: '5'\nc: \"off\"\nd: |\n  x\n", path="p").data == {
        "a": "5",
        "b": "5",
        "c": "off",
        "d": "x\n",
    }


def test_deep_nesting_is_an_error_and_not_a_crash():
    assert "nested more than 20 levels deep" in sentences("[" * 500 + "]" * 500)[0]


@pytest.mark.parametrize("text", ["[" * 500_000, "{a: " * 200_000])
def test_brackets_without_end_are_refused_before_they_take_hours(text):
    with pytest.raises(PipelineFileError, match="nested more than 20 levels deep"):
        parse_yaml(text, path="p")


def test_keys_inside_keys_without_end_are_an_error_and_not_a_crash():
    with pytest.raises(PipelineFileError, match="nested more than 20 levels deep"):
        parse_yaml("? " * 300_000, path="p")


@pytest.mark.parametrize("repeated", ["[" + "{<<: *x}," * 60_000 + "]", "{<<: [" + "*x," * 150_000 + "]}"])
def test_merged_mappings_that_grow_without_bound_are_refused(repeated):
    many = ",".join(f"k{number}: " for number in range(40_000))
    with pytest.raises(PipelineFileError, match="aliases blow the file up"):
        parse_yaml(f"a: &x {{{many}}}\nb: {repeated}\n", path="p")
