import pytest

from icefloe.errors import TerminalError
from icefloe.pipeline.validation import checked_data
from icefloe.pipeline.yaml_file import load_yaml


def problems(path, environ=None):
    """Line and sentence of each fault."""
    with pytest.raises(TerminalError) as caught:
        checked_data(load_yaml(path), environ)
    rows = [line.removeprefix(str(path)) for line in caught.value.sentence.split("\n")]
    return [(int(row.partition(": ")[0][1:] or 0), row.partition(": ")[2]) for row in rows]


def sentences(path, environ=None):
    return [sentence for _, sentence in problems(path, environ)]


def test_all_faults_of_all_kinds_are_reported_in_line_order(write):
    path = write(
        """\
catalog: {uri: 'postgresql://ice:floe@db/x', token: x}
tabel: nyc.flights
table: nyc.flights
storage: /var/icefloe
changes: all
pin: false
pin: true
spark: {conf: {spark.hadoop.fs.s3a.secret.key: x}}
sink: {type: files, path: lake}
schedule: 61 * * * *
branch: ${BRANCH}
name: flights__backfill
"""
    )
    expected = [
        (1, "version"),
        (1, "catalog.uri"),
        (1, "catalog.token"),
        (2, "tabel"),
        (4, "storage"),
        (5, "changes"),
        (7, "pin"),
        (8, "spark.conf.spark.hadoop.fs.s3a.secret.key"),
        (9, "sink.path"),
        (10, "schedule"),
        (11, "branch"),
        (12, "name"),
    ]
    found = problems(path)
    assert [line for line, _ in found] == [line for line, _ in expected]
    assert all(key in sentence for (_, key), (_, sentence) in zip(expected, found, strict=True))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# a remark", "a pipeline file must be a mapping of keys to values, one `key: value` per line, not empty"),
        (
            "- password: hunter2",
            "a pipeline file must be a mapping of keys to values, one `key: value` per line, not a list",
        ),
        (
            "hunter2",
            "a pipeline file must be a mapping of keys to values, one `key: value` per line, not a single value",
        ),
    ],
)
def test_a_file_that_is_no_mapping_is_one_sentence(write, text, sentence):
    (found,) = sentences(write(text))
    assert found.startswith(sentence)


@pytest.mark.parametrize("name", ["a b", "a.b", "flüge", "x__backfill", "x\n", "", "a" * 201])
def test_a_name_that_airflow_could_not_take_is_refused(write, name):
    (sentence,) = sentences(write(name=name))
    assert "letters, digits, _ or -, without the ending __backfill" in sentence


@pytest.mark.parametrize("stem", ["flights__backfill", "my flights"])
def test_a_stem_that_is_no_name_asks_for_one(write, stem):
    (sentence,) = sentences(write(stem=stem))
    assert sentence.startswith(f"the file's stem '{stem}' is no name for a DAG: add name: with 1 to 200 letters")
    assert checked_data(load_yaml(write(stem=stem, name="flights")), None)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"catalog": {"name": "lab", "credential": "a:b"}}, "catalog.credential looks like a secret, which"),
        ({"catalog": {"token": "a:b"}}, "keep it in an Airflow connection or PyIceberg's configuration"),
        ({"spark": {"conf": {"spark.ssl.keyPassword": "x"}}}, "in the Airflow connection of Spark or Spark's own"),
        ({"sink": {"type": "warehouse", "auth": {"password": "x"}}}, "sink.auth.password looks like a secret"),
        ({"sink": {"type": "kafka", "topic": "x", "settings": {"ssl.key.pem": "a:b"}}}, "ssl.key.pem looks like a"),
        ({"catalog": {"header.Cookie": "a:b"}}, "catalog.header.Cookie looks like a secret"),
        ({"storage": "s3://key:secret@lake/x"}, "storage holds a password"),
    ],
)  # fmt: skip
def test_a_secret_is_refused_and_never_repeated(write, keys, sentence):
    (found,) = sentences(write(**keys))
    assert sentence in found
    assert "a:b" not in found
    assert "key:secret" not in found


def test_a_value_of_the_environment_is_checked_and_never_shown(write):
    path = write(storage="${STORAGE}", engine="${ENGINE}", sink={"type": "files", "path": "${OUT}"})
    checked_data(load_yaml(path), None)
    found = sentences(path, {"STORAGE": "/hidden", "ENGINE": "hidden", "OUT": "s3://a:hidden@b"})
    assert found == [
        "storage is not usable after the environment expanded '${STORAGE}': look at the variable's value",
        "sink.path is not usable after the environment expanded '${OUT}': look at the variable's value",
        "engine must be spark, local or auto, not the expanded value of '${ENGINE}'",
    ]


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({}, "engine uses ${ENGINE}, which is not set: set it in the environment of the tasks"),
        ({"ENGINE": "${OTHER}"}, "engine must be spark, local or auto, not the expanded value of '${ENGINE}'"),
    ],
)
def test_a_variable_that_is_not_set_or_a_reference_itself_is_the_only_complaint(write, environ, sentence):
    assert sentences(write(engine="${ENGINE}"), environ) == [sentence]


def test_numbers_and_truths_of_the_environment_are_read_as_yaml_reads_them(write):
    path = write(pin="${A}", shuffle={"partitions": "${C}", "memory_bytes": "${D}"})
    data = checked_data(load_yaml(path), {"A": "true", "C": "64", "D": "2GiB"})
    assert (data["pin"], data["shuffle"]) == (True, {"partitions": 64, "memory_bytes": "2GiB"})


def test_each_allowed_location_is_checked(write):
    locations = ["s3://archive/events", "/data", "s3a://lake/../x", "${PLACE}"]
    found = sentences(write(allowed_locations=locations))
    assert [each.partition(" must be a URL: ")[0] for each in found] == ["allowed_locations[1]", "allowed_locations[2]"]
    assert sentences(write(allowed_locations=["${PLACE}"]), {"PLACE": "lake"}) == [
        "allowed_locations[0] is not usable after the environment expanded '${PLACE}': look at the variable's value"
    ]
    assert sentences(write(allowed_locations="s3://archive"))
    assert sentences(write(allowed_locations=[]))


def test_two_checks_of_one_name_are_refused(write):
    check = {"name": "late", "query": "SELECT 1"}
    assert sentences(write(checks=[check, check | {"query": "SELECT 2"}])) == [
        "checks must have names of their own, and 'late' is there twice"
    ]
    assert "name" in sentences(write(checks=[check, {"query": "SELECT 2"}, "late"]))[0]
    assert checked_data(load_yaml(write(checks=[check, check | {"name": "early"}])), None)
