import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.validation import pipeline_schema, schema_problems
from icefloe.pipeline.yaml_file import parse_yaml

KNOWN = set(pipeline_schema()["properties"])
UNKNOWN = st.from_regex(r"[A-Za-z_][A-Za-z0-9_ -]{0,30}", fullmatch=True).filter(
    lambda key: key.strip() == key and key not in KNOWN
)
COLUMNS = "a list of column names without doubles, such as [flight_id, arr_delay]"
CONSTRAINTS = {"type", "enum", "const", "anyOf", "pattern", "minimum", "items"}


def problems(text):
    file = parse_yaml(text, path="p")
    return list(schema_problems(file, file.data, is_expanded=False))


def schemas(schema, place="#"):
    """Every schema that an error can be about, with its place; the forms of an anyOf speak through their parent."""
    yield place, schema
    for word in ("properties", "patternProperties", "$defs"):
        for name, below in schema.get(word, {}).items():
            if isinstance(below, dict):
                yield from schemas(below, f"{place}/{word}/{name}")
    for word in ("items", "then", "else", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from schemas(schema[word], f"{place}/{word}")
    for form in schema.get("anyOf", ()):
        if form.get("type") == "object":
            yield from schemas(form, f"{place}/anyOf")


def test_the_published_schema_is_valid_and_says_everything_about_every_key():
    schema = pipeline_schema()
    Draft202012Validator.check_schema(schema)
    constraints = [place for place, each in schemas(schema) if CONSTRAINTS & each.keys() and "x-expected" not in each]
    assert constraints == []
    required = {*schema["required"], "name"}
    assert [key for key, each in schema["properties"].items() if "description" not in each] == []
    assert [key for key, each in schema["properties"].items() if "default" not in each and key not in required] == []
    assert set(Pipeline.__dataclass_fields__) - {"file", "variables", "hidden"} == KNOWN


@given(UNKNOWN, st.integers(min_value=0, max_value=5))
def test_an_unknown_key_is_named_with_its_line_and_the_nearest_known_key(key, lines_above):
    found = problems("\n" * lines_above + f"{key!r}: 1\n")
    (problem,) = [problem for problem in found if problem.sentence.startswith("unknown key")]
    assert (problem.line, problem.key) == (lines_above + 1, key)
    said = problem.sentence.removeprefix(f"unknown key '{key}'")
    assert said.startswith(": correct or remove it; docs/") or any(f"'{known}'" in said for known in KNOWN)


@given(st.sampled_from(sorted(KNOWN)).filter(lambda key: len(key) > 5), st.data())
def test_a_slip_of_one_letter_names_the_key_that_was_meant(key, data):
    position = data.draw(st.integers(min_value=0, max_value=len(key) - 1))
    slip = key[:position] + key[position + 1 :]
    found = [problem.sentence for problem in problems(f"{slip}: 1\n") if problem.key == slip]
    assert found == [f"unknown key '{slip}'; the nearest known key is '{key}': correct or remove it"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Table: a.b", "unknown key 'Table'; the nearest known key is 'table': correct or remove it"),
        (
            "sink: {type: files, path: 's3://a', formt: x}",
            "unknown key 'sink.formt'; the nearest known key is 'format'",
        ),
        ("spark: {conf: {executor.cores: 1}}", "unknown key 'spark.conf.executor.cores': keys here begin with spark."),
        ("default_args: {email: x}", "unknown key 'default_args.email': correct or remove it; docs/pipeline_keys.md"),
    ],
)
def test_an_unknown_key_names_the_nearest_known_one(text, sentence):
    assert any(sentence in problem.sentence for problem in problems(text))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("version: 2", "version must be 1, the only version there is, not 2"),
        ("changes: all", "changes must be each, net, upsert or append_only, not 'all'"),
        ("pin: yes", "pin must be true or false, not 'yes'"),
        ("pin:", "pin must be true or false, not empty"),
        ("branch: 5", "branch must be the name of a branch or tag, such as main, not 5"),
        ("columns: [a, a]", f'columns must be {COLUMNS}, not the list ["a", "a"]'),
        ("columns: [1]", "columns[0] must be the name of a column, not 1"),
        ("shuffle: {partitions: 5000}", "shuffle.partitions must be auto or a number from 1 to 4096, not 5000"),
        ("shuffle: 5", "shuffle must be a mapping such as {partitions: auto, memory_bytes: 1GiB}, not 5"),
        ("max_bytes_per_batch: 1 parsec", "must be a size such as 64MiB or 1GB, or a number of bytes, not '1 parsec'"),
        ("poll_interval: 0s", "1h, at most 99999d, or a number of seconds, not '0s'"),
        ("changelog: {keep: 999999d}", "a duration such as 30s, 5m or 1h, at most 99999d, or a number of"),
        ("catalog: {uri: [x]}", 'catalog.uri must be text, a number, true or false, not the list ["x"]'),
        ("schedule: {asset: }", "schedule.asset must be the name of an asset, not empty"),
        ("sink: {type: 7}", "must be files, iceberg, spark, opensearch, kafka, postgres, or the name of a sink"),
        ("sink: {path: 's3://a'}", "the key sink.type is missing: add it as files, iceberg, spark, opensearch, kafka"),
        ("sink: {type: opensearch, index: Flights}", "sink.index must be the name of an index: lower-case letters"),
        ("sink: {type: opensearch, deletes: never}", "sink.deletes must be soft or hard, not 'never'"),
        ("sink: {type: kafka}", "the key sink.topic is missing: add it as the name of a topic"),
        ("sink: {type: kafka, topic: a, envelope: bare}", "sink.envelope must be debezium or plain, not 'bare'"),
        ("sink: {type: kafka, topic: a, transaction_bytes: many}", "sink.transaction_bytes must be a size such as"),
        ("sink: {type: opensearch, dead_letters: {limit: 1}}", "the key sink.dead_letters.path is missing"),
        ("table: flights", "table must be a namespace and a table joined by a dot, such as nyc.flights, not 'flights'"),
        ("filter: " + "x" * 300, None),
        ("filter: [" + "x" * 300 + "]", "x..."),
    ],
)  # fmt: skip
def test_a_wrong_value_says_what_was_expected_and_what_was_found(text, sentence):
    found = [
        problem.sentence
        for problem in problems(text)
        if "is missing: add it as" not in problem.sentence or "sink" in text
    ]
    assert sentence is None or any(sentence in complaint for complaint in found)
    key = text.partition(":")[0]
    assert sentence is not None or not any(complaint.startswith(key) for complaint in found)


def test_every_missing_key_is_one_sentence():
    assert [(problem.line, problem.key) for problem in problems("version: 1\n")] == [
        (1, "catalog"),
        (1, "table"),
        (1, "storage"),
        (1, "sink"),
    ]


def test_a_sink_of_another_package_takes_any_option():
    assert [
        problem for problem in problems("sink: {type: warehouse, index: changes, x: {y: 1}}") if "sink" in problem.key
    ] == []
