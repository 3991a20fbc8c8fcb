import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.pipeline.environment import expand, has_reference
from icefloe.pipeline.validation import environment_problems
from icefloe.pipeline.yaml_file import parse_yaml

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True)


@given(NAMES, st.text(), st.text(st.characters(exclude_characters="$")), st.text(st.characters(exclude_characters="$")))
def test_a_reference_becomes_the_value_of_its_variable(name, value, before, after):
    text = f"{before}${{{name}}}{after}"
    assert has_reference(text)
    assert expand({"a": [text]}, {name: value}) == {"a": [f"{before}{value}{after}"]}


def test_values_of_the_environment_are_not_expanded_again():
    assert expand("${A}", {"A": "${B}", "B": "b"}) == "${B}"


def test_two_dollars_write_one():
    assert expand("$${A} $5 ${A}", {"A": "a"}) == "${A} $5 a"


@pytest.mark.parametrize("value", ["${}", "${A-B}", "${A:-x}", "${1}", "${"])
def test_braces_without_a_name_are_a_problem_with_line_and_key(value):
    file = parse_yaml(f"version: 1\nstorage: '{value}'\n", path="p")
    (problem,) = environment_problems(file)
    assert (problem.line, problem.key) == (2, "storage")
    assert "has '${' without a name: write ${NAME}" in problem.sentence


@pytest.mark.parametrize(
    "text",
    ["name: ${X}", "branch: ${X}", "identifier_columns: [a, 'b${X}']", "initial_load: ${X}", "schedule: ${X}",
     "default_args: {pool: '${X}'}", "max_steps_per_batch: ${X}", "commit_groups: ${X}", "sink: {type: '${X}'}"],
)  # fmt: skip
def test_identity_range_and_what_a_dag_is_made_of_may_not_use_the_environment(text):
    (problem,) = environment_problems(parse_yaml(text, path="p"))
    assert "may not use ${X}: " in problem.sentence
    assert problem.sentence.endswith("write the value itself")


def test_every_variable_that_is_not_set_is_named_with_its_line():
    file = parse_yaml("storage: ${A}/${B}\nsink:\n  path: ${B}\n", path="p")
    assert [problem.at("p") for problem in environment_problems(file, {"A": ""})] == [
        "p:1: storage uses ${B}, which is not set: set it in the environment of the tasks",
        "p:3: sink.path uses ${B}, which is not set: set it in the environment of the tasks",
    ]
