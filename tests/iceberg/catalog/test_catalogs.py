import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import NotInstalledError

from demo.servers.free_port import free_port
from icefloe.errors import TerminalError, TransientError
from icefloe.iceberg.catalog.catalog_errors import catalog_errors
from icefloe.iceberg.catalog.catalogs import UnknownTableError, load_catalog, load_table, usable_properties
from support.fakes.answering_server import answering_server
from support.tables.planning_tables import make_catalog, make_table, rows


@pytest.fixture(autouse=True)
def _no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def properties(folder: Path, **more: str) -> dict[str, str]:
    return {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse", **more}


def test_a_mapping_of_properties_is_a_catalog_of_its_name_or_called_default(tmp_path: Path) -> None:
    make_catalog(tmp_path, "lab").create_table("db.t", rows().schema)
    assert load_table(properties(tmp_path, name="lab", type="sql"), "db.t").name() == ("db", "t")
    assert load_table("lab", "db.t", properties=properties(tmp_path)).name() == ("db", "t")
    with pytest.raises(UnknownTableError, match=r"'default' has no table db.t: it has no namespace db"):
        load_table(properties(tmp_path), "db.t")
    make_table(tmp_path).append(rows(1))
    assert load_table(properties(tmp_path), "db.events").name() == ("db", "events")


def test_a_configured_catalog_of_the_same_name_is_not_merged_into_a_mapping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(tmp_path)
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__TYPE", "rest")
    monkeypatch.setenv("PYICEBERG_CATALOG__DEFAULT__WAREHOUSE", "s3://elsewhere")
    catalog = load_catalog(properties(tmp_path))
    assert catalog.properties["warehouse"] == f"file://{tmp_path}/warehouse"


def test_a_name_is_a_catalog_of_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_catalog(tmp_path, "lake").create_table("db.t", rows().schema)
    for key, value in properties(tmp_path).items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{key.upper()}", value)
    assert load_table("lake", "db.t").name() == ("db", "t")
    with pytest.raises(TerminalError, match="no catalog 'lakes' in PyIceberg's configuration: did you mean 'lake'"):
        load_table("lakes", "db.t")


def test_an_unknown_table_names_near_ones(tmp_path: Path) -> None:
    make_table(tmp_path)
    for name, sentence in {
        "db.event": r"has no table db.event: did you mean db.events\?",
        "db.zzz": "has no table db.zzz$",
        "nowhere.t": "it has no namespace nowhere",
        "events": "has no namespace: write namespace.name",
    }.items():
        with pytest.raises(UnknownTableError, match=sentence) as error:
            load_table(properties(tmp_path), name)
        assert (error.value.catalog, error.value.table) == ("default", name)


def test_a_database_file_that_is_missing_or_empty_is_a_catalog_that_is_down_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    with pytest.raises(TransientError, match=r"its database file .*catalog.db is missing"):
        load_table(properties(tmp_path), "db.t")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "catalog.db").touch()
    with pytest.raises(TransientError):
        load_table(properties(tmp_path), "db.t")
    assert (tmp_path / "catalog.db").stat().st_size == 0


def test_a_refused_connection_is_transient() -> None:
    with pytest.raises(TransientError, match="catalog 'default' does not answer: cannot open it"):
        load_table({"type": "rest", "uri": f"http://127.0.0.1:{free_port()}"}, "db.t")


@pytest.mark.parametrize("uri", ["sqlite:///catalog.db", "nonsense://x"])
def test_a_catalog_that_cannot_be_opened_is_terminal(tmp_path: Path, uri: str) -> None:
    (tmp_path / "catalog.db").write_bytes(b"no database" * 100)
    for wrong in ({"uri": uri}, {"uri": uri, "py-catalog-impl": "nowhere.Catalog"}):
        with pytest.raises(TerminalError, match=r"catalog 'default'(: cannot open it| has .* PyIceberg does not know)"):
            load_table(wrong, "db.t")


def test_a_metadata_file_that_is_gone_is_terminal(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    Path(table.metadata_location.removeprefix("file://")).unlink()
    with pytest.raises(TerminalError, match=r"the metadata file of table db.events is missing"):
        load_table(properties(tmp_path), "db.events")


def test_errors_that_nobody_expects_pass_through() -> None:
    with pytest.raises(ZeroDivisionError), catalog_errors("default", "divide"):
        _ = 1 / 0
    with pytest.raises(TerminalError), catalog_errors("default", "open it"):
        raise NotInstalledError("no hive")
    with pytest.raises(TransientError), catalog_errors("default", "open it"):
        raise TimeoutError


SECRET = "xhq8v2-Lk7TnWz3RbYd5"


def test_a_mapping_for_auth_works_from_pyicebergs_file(tmp_path: Path) -> None:
    sent: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        sent.append(request.headers.get("Authorization", ""))
        return 200, {"Content-Type": "application/json"}, json.dumps({"defaults": {}, "overrides": {}}).encode()

    with answering_server(answer) as (url, _):
        auth = f"    auth:\n      type: basic\n      basic:\n        username: user\n        password: {SECRET}\n"
        (tmp_path / ".pyiceberg.yaml").write_text(f"catalog:\n  lab:\n    type: rest\n    uri: {url}\n{auth}")
        load_catalog("lab")
    assert sent == ["Basic dXNlcjp4aHE4djItTGs3VG5XejNSYllkNQ=="]


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        *(
            (key, f"{SECRET}\nx", "holds a line break")
            for key in ("token", "header.X-Api-Key", "s3.session-token", "uri")
        ),
        ("auth", f"{{'password': '{SECRET}'}}", "must be a mapping"),
        ("ssl", SECRET, "must be a mapping"),
        ("s3.region", [SECRET], "must be text, a number, true or false"),
        ("s3.region", {SECRET: 1}, "must be text, a number, true or false"),
    ],
)
def test_a_value_that_no_catalog_takes_is_refused_by_its_name_alone(key: str, value: object, sentence: str) -> None:
    with pytest.raises(TerminalError, match=f"property '{key}' {sentence}") as caught:
        usable_properties("lab", {key: value})
    assert SECRET not in str(caught.value)


def test_values_of_json_are_text_and_others_stay_as_they_are() -> None:
    pem = "-----BEGIN KEY-----\nabc\n-----END KEY-----"
    given = {
        "a": True, "b": False, "c": 3, "d": 0.5, "e": None, "f": "x", "ssl": {"cabundle": "/f", "n": 1}, "gcs.key": pem,
        "auth": {"a": {"b": "c\n"}}, "token": f"{SECRET}\r\n\n",
    }  # fmt: skip
    expected = {
        "a": "true", "b": "false", "c": "3", "d": "0.5", "f": "x", "ssl": {"cabundle": "/f", "n": 1}, "gcs.key": pem,
        "auth": {"a": {"b": "c"}}, "token": SECRET,
    }  # fmt: skip
    assert usable_properties("lake", given) == expected


KINDS = ("bigquery", "dynamodb", "glue", "hive", "in-memory", "rest", "sql")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"type": SECRET}, f"a type that PyIceberg does not know: write one of {', '.join(KINDS)}"),
        ({"warehouse": "s3://x"}, f"no type, and a uri that PyIceberg does not know: write one of {', '.join(KINDS)}"),
        ({"uri": f"catalog.example.com/{SECRET}"}, "no type, and a uri that PyIceberg does not know"),
        ({"type": "rest"}, "of type rest has no uri: write one such as https://catalog.example.com"),
        ({"type": "REST", "uri": f"me:{SECRET}@c"}, "of type rest has a uri of another form: write one such as https"),
        ({"type": "hive", "uri": "https://c"}, "of type hive has a uri of another form: write one such as thrift://"),
        ({"type": "sql", "uri": f"jdbc:postgresql://c/?password={SECRET}"}, "of type sql has a uri of another form"),
    ],
)
def test_a_catalog_that_does_not_exist_is_refused_with_what_to_write(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TerminalError) as refused:
        load_catalog({"name": "lake", **given})
    assert f"catalog 'lake' {'' if 'of type' in sentence else 'has '}{sentence}" in str(refused.value)
    assert SECRET not in str(refused.value)
    assert (refused.value.key or "").startswith("catalog.")


def test_an_unknown_type_is_reported_with_its_place(tmp_path: Path) -> None:
    path = Path(make_table(tmp_path).metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_bytes())
    metadata["schemas"][0]["fields"][1]["type"] = "variant"
    path.write_text(json.dumps(metadata))
    with pytest.raises(TerminalError, match=r"cannot load table db.events .*schemas.0.fields.1.*variant"):
        load_table(properties(tmp_path), "db.events")
