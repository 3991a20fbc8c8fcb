import threading
from pathlib import Path

import pytest
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import NoSuchTableError, NotInstalledError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from demo.servers.free_port import free_port
from icefloe.errors import TerminalError, TransientError
from icefloe.iceberg.catalog.catalog_errors import catalog_errors
from icefloe.iceberg.catalog.catalogs import UnknownCatalogError, UnknownTableError, load_catalog, load_table
from icefloe.patience import PATIENCE_VARIABLE
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
