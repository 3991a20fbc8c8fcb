import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.catalogs import load_catalog, usable_properties
from support.fakes.answering_server import answering_server

SECRET = "xhq8v2-Lk7TnWz3RbYd5"


def asked_with(properties: dict[str, Any] | str, monkeypatch: pytest.MonkeyPatch, home: Path) -> list[str]:
    """The Authorization of each request that opening a catalog sends."""
    sent: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        sent.append(request.headers.get("Authorization", ""))
        return 200, {"Content-Type": "application/json"}, json.dumps({"defaults": {}, "overrides": {}}).encode()

    with answering_server(answer) as (url, _):
        if isinstance(properties, str):
            (home / ".pyiceberg.yaml").write_text(properties.replace("{url}", url))
            monkeypatch.setenv("PYICEBERG_HOME", str(home))
            load_catalog("lab")
        else:
            load_catalog("lab", properties={"type": "rest", "uri": url, **properties})
    return sent


def test_a_mapping_for_auth_works_from_pyicebergs_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = f"""
catalog:
  lab:
    type: rest
    uri: {{url}}
    auth:
      type: basic
      basic:
        username: user
        password: {SECRET}
"""
    assert asked_with(file, monkeypatch, tmp_path) == ["Basic dXNlcjp4aHE4djItTGs3VG5XejNSYllkNQ=="]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_a_mounted_token_may_end_in_a_line_break(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = asked_with({"token": f"{SECRET}{end}"}, monkeypatch, tmp_path)
    assert sent == [f"Bearer {SECRET}"]


@pytest.mark.parametrize("key", ["token", "header.X-Api-Key", "s3.access-key-id", "s3.session-token", "uri"])
def test_a_line_break_in_the_middle_is_named_and_not_shown(key: str) -> None:
    with pytest.raises(TerminalError, match=f"property '{key}' holds a line break") as caught:
        usable_properties("lab", {key: f"{SECRET}\nx"})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("key", ["auth", "ssl"])
def test_a_text_for_a_mapping_is_refused_in_one_sentence(key: str) -> None:
    with pytest.raises(TerminalError, match=f"property '{key}' must be a mapping") as caught:
        usable_properties("lab", {key: f"{{'password': '{SECRET}'}}"})
    assert SECRET not in str(caught.value)


def test_other_values_stay_as_they_are() -> None:
    key = "-----BEGIN KEY-----\nabc\n-----END KEY-----"
    found = usable_properties("lab", {"gcs.key": key, "rest.sigv4-enabled": True, "auth": {"a": {"b": "c\n"}}})
    assert found == {"gcs.key": key, "rest.sigv4-enabled": "true", "auth": {"a": {"b": "c"}}}


def test_values_of_json_are_text() -> None:
    given = {"a": True, "b": False, "c": 3, "d": 0.5, "e": None, "f": "x", "ssl": {"cabundle": "/f", "n": 1}}
    expected = {"a": "true", "b": "false", "c": "3", "d": "0.5", "f": "x", "ssl": {"cabundle": "/f", "n": 1}}
    assert usable_properties("lake", given) == expected


@pytest.mark.parametrize("value", [["a"], ["a", {}], {"a": 1}])
def test_another_value_is_refused_by_its_name_alone(value: object) -> None:
    with pytest.raises(
        TerminalError, match=r"its property 's3\.region' must be text, a number, true or false"
    ) as refused:
        usable_properties("lake", {"s3.region": value})
    assert "['a" not in str(refused.value)


KINDS = ("bigquery", "dynamodb", "glue", "hive", "in-memory", "rest", "sql")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"type": "hadoop", "warehouse": "file:///x"}, "the type hadoop, one that PyIceberg does not know: register"),
        ({"type": "Nessie"}, "the type nessie, one that PyIceberg does not know: write type: rest"),
        ({"type": "jdbc"}, "the type jdbc, one that PyIceberg does not know: write type: sql"),
        ({"type": SECRET}, f"a type that PyIceberg does not know: write one of {', '.join(KINDS)}"),
        ({"warehouse": "s3://x"}, f"no type, and a uri that PyIceberg does not know: write one of {', '.join(KINDS)}"),
        ({"type": True}, "a type that PyIceberg does not know"),
        ({"uri": f"catalog.example.com/{SECRET}"}, "no type, and a uri that PyIceberg does not know"),
        ({"type": "rest"}, "of type rest has no uri: write one such as https://catalog.example.com"),
        ({"type": "REST", "uri": f"me:{SECRET}@c"}, "of type rest has a uri of another form: write one such as https"),
        ({"type": "rest", "uri": "https://"}, "of type rest has a uri of another form"),
        ({"type": "hive", "uri": "https://c"}, "of type hive has a uri of another form: write one such as thrift://"),
        ({"type": "sql"}, "of type sql has no uri: write one such as postgresql"),
        ({"type": "sql", "uri": f"jdbc:postgresql://c/?password={SECRET}"}, "of type sql has a uri of another form"),
    ],
)
def test_a_catalog_that_does_not_exist_is_refused_with_what_to_write(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TerminalError) as refused:
        load_catalog({"name": "lake", **given})
    assert f"catalog 'lake' {'' if 'of type' in sentence else 'has '}{sentence}" in str(refused.value)
    assert SECRET not in str(refused.value)
    assert (refused.value.key or "").startswith("catalog.")
