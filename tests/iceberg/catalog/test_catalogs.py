import json
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import NoSuchTableError, NotInstalledError
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.typedef import Identifier

from demo.servers.free_port import free_port
from icefloe.errors import TerminalError, TransientError
from icefloe.iceberg.catalog.catalog_errors import catalog_errors
from icefloe.iceberg.catalog.catalogs import (
    UnknownCatalogError,
    UnknownTableError,
    load_catalog,
    load_table,
    usable_properties,
)
from icefloe.iceberg.catalog.metadata_errors import unknown_column_type
from icefloe.patience import PATIENCE_VARIABLE
from support.fakes.answering_server import answering_server
from support.tables.planning_tables import make_catalog, make_table, rows


@pytest.fixture(autouse=True)
def _no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def properties(folder: Path, **more: str) -> dict[str, str]:
    return {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse", **more}


def test_a_mapping_of_properties_is_a_catalog_called_default(tmp_path: Path) -> None:
    make_table(tmp_path).append(rows(1))
    assert load_table(properties(tmp_path), "db.events").name() == ("db", "events")


def test_name_in_the_mapping_is_the_catalog_s_name(tmp_path: Path) -> None:
    make_catalog(tmp_path, "lab").create_table("db.t", rows().schema)
    assert load_table(properties(tmp_path, name="lab", type="sql"), "db.t").name() == ("db", "t")
    with pytest.raises(UnknownTableError, match=r"'default' has no table db.t: it has no namespace db; .* by its name"):
        load_table(properties(tmp_path), "db.t")


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
    with pytest.raises(
        UnknownCatalogError, match="no catalog 'lakes' in PyIceberg's configuration: did you mean 'lake'"
    ):
        load_table("lakes", "db.t")


def test_given_properties_count_instead_of_the_configuration(tmp_path: Path) -> None:
    make_catalog(tmp_path, "conn").create_table("db.t", rows().schema)
    assert load_table("conn", "db.t", properties=properties(tmp_path)).name() == ("db", "t")


def test_an_unknown_table_names_near_ones(tmp_path: Path) -> None:
    make_table(tmp_path)
    with pytest.raises(UnknownTableError, match=r"has no table db.event: did you mean db.events\?") as error:
        load_table(properties(tmp_path), "db.event")
    assert (error.value.catalog, error.value.table) == ("default", "db.event")
    with pytest.raises(UnknownTableError, match=r"has no table db.zzz: namespace db has db.events"):
        load_table(properties(tmp_path), "db.zzz")
    with pytest.raises(UnknownTableError, match="it has no namespace nowhere"):
        load_table(properties(tmp_path), "nowhere.t")
    with pytest.raises(UnknownTableError, match=r"has no namespace: write namespace.name"):
        load_table(properties(tmp_path), "events")


def test_a_missing_sqlite_file_is_a_catalog_that_is_down_and_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(TransientError, match=r"its database file .*catalog.db is missing"):
        load_table(properties(tmp_path), "db.t")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_database_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").touch()
    with pytest.raises(TransientError):
        load_table(properties(tmp_path), "db.t")
    assert (tmp_path / "catalog.db").stat().st_size == 0


def test_a_file_that_is_no_database_is_terminal(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"no database" * 100)
    with pytest.raises(TerminalError, match=r"catalog 'default'(: cannot open it| has .* PyIceberg does not know)"):
        load_table(properties(tmp_path), "db.t")


def test_a_refused_connection_is_transient() -> None:
    with pytest.raises(TransientError, match="catalog 'default' does not answer: cannot open it"):
        load_table({"type": "rest", "uri": f"http://127.0.0.1:{free_port()}"}, "db.t")


STUCK = threading.Event()


class StuckCatalog(NoopCatalog):
    """Opens at once and never loads a table, as a client without a timeout does whose server hangs."""

    def load_table(self, identifier: str | Identifier) -> Table:
        assert STUCK.wait(60)
        raise NoSuchTableError(str(identifier))

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        assert namespace
        return []


def test_looks_at_a_catalog_that_hangs_for_ever_do_not_fill_the_process_with_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(PATIENCE_VARIABLE, "0.05")
    given = {"name": "stuck", "py-catalog-impl": f"{__name__}.StuckCatalog"}
    before = threading.active_count()

    def refusal() -> str:
        with pytest.raises(TransientError, match="catalog 'stuck' does not answer: cannot") as raised:
            load_table(given, "db.events")
        return raised.value.sentence

    try:
        # On a busy machine even opening the catalog may take longer than so little patience.
        while "4 earlier calls to it are still unanswered" not in refusal():
            pass
        threads = threading.active_count()
        for _ in range(10):
            refusal()
        while threading.active_count() > threads:
            threading.Event().wait(0.01)
    finally:
        STUCK.set()
    monkeypatch.setenv(PATIENCE_VARIABLE, "10")
    while threading.active_count() > before:
        threading.Event().wait(0.01)
    with pytest.raises(UnknownTableError, match="catalog 'stuck' has no table"):
        load_table(given, "db.events")


@pytest.mark.parametrize(
    "wrong",
    [{"uri": "nonsense://x"}, {"type": "no such type", "uri": "x"}, {}, {"py-catalog-impl": "nowhere.Catalog"}],
)
def test_wrong_properties_are_terminal(wrong: dict[str, str]) -> None:
    with pytest.raises(TerminalError, match=r"catalog 'default'(: cannot open it| has .* PyIceberg does not know)"):
        load_table(wrong, "db.t")


def test_a_metadata_file_that_is_gone_is_terminal(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    Path(table.metadata_location.removeprefix("file://")).unlink()
    with pytest.raises(TerminalError, match=r"names a missing metadata file of table db.events"):
        load_table(properties(tmp_path), "db.events")


def test_errors_that_nobody_expects_pass_through() -> None:
    with pytest.raises(ZeroDivisionError), catalog_errors("default", "divide"):
        _ = 1 / 0
    with pytest.raises(TerminalError), catalog_errors("default", "open it"):
        raise NotInstalledError("no hive")
    with pytest.raises(TransientError), catalog_errors("default", "open it"):
        raise TimeoutError


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


def metadata(kind: object, **changes: Any) -> dict[str, object]:
    fields = [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "c", "type": kind, "required": False},
    ]
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    return {
        "format-version": 2, "table-uuid": "f79c3e09-677c-4bbd-a479-3f349cb785e7", "location": "s3://b/t",
        "last-sequence-number": 0, "last-updated-ms": 1, "last-column-id": 9, "current-schema-id": 0,
        "schemas": [schema],
        "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}], "last-partition-id": 999,
        "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}], **changes,
    }  # fmt: skip


def error_of(document: dict[str, object]) -> BaseException:
    with pytest.raises(Exception) as refused:
        TableMetadataUtil.parse_obj(document)
    return refused.value


def nested(kind: object) -> dict[str, object]:
    return {"type": "struct", "fields": [{"id": 5, "name": "x", "type": kind, "required": False}]}


@pytest.mark.parametrize(
    "kind",
    [
        "variant",
        nested("variant"),
        {"type": "list", "element-id": 5, "element": "variant", "element-required": False},
        {"type": "map", "key-id": 5, "key": "string", "value-id": 6, "value": "variant", "value-required": False},
        nested({"type": "list", "element-id": 6, "element": nested("variant"), "element-required": False}),
    ],
    ids=str,
)
def test_an_unknown_type_is_reported_with_its_column(kind: object) -> None:
    found = unknown_column_type(error_of(metadata(kind)))
    assert found == ("variant", 2)


def test_other_faults_of_the_metadata_are_not_types() -> None:
    assert unknown_column_type(error_of(metadata("long", **{"last-column-id": "many"}))) is None
    assert unknown_column_type(ValueError("variant")) is None
