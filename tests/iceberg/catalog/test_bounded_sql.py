from pathlib import Path

import pytest
from sqlalchemy import text

from icefloe.errors import TransientError
from icefloe.iceberg.catalog.bounded_sql import BoundedSqlCatalog, connection_timeouts
from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.patience import PATIENCE_VARIABLE, answer_within
from support.fakes.unanswering import keep_silent, serving
from support.missing import require_package
from support.tables.planning_tables import make_table


@pytest.fixture
def psycopg2() -> None:
    require_package("psycopg2", "psycopg2-binary")


@pytest.mark.usefixtures("psycopg2")
@pytest.mark.timeout(60)
def test_a_database_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATIENCE_VARIABLE, "1.5")
    with (
        serving(keep_silent) as port,
        pytest.raises(TransientError, match="catalog 'lake' does not answer: cannot open"),
    ):
        load_table({"name": "lake", "uri": f"postgresql+psycopg2://u:p@127.0.0.1:{port}/lake"}, "db.events")


@pytest.mark.usefixtures("psycopg2")
@pytest.mark.timeout(60)
def test_a_connection_to_a_silent_server_ends_by_itself_so_that_no_thread_stays() -> None:
    with serving(keep_silent) as port:
        properties = {"uri": f"postgresql+psycopg2://u:p@127.0.0.1:{port}/lake"}
        with pytest.raises(Exception, match="timeout expired"):
            # A driver that waits without end cannot be interrupted.
            answer_within(20, lambda: BoundedSqlCatalog("lake", properties, 2))


def test_a_database_file_is_opened_as_before(tmp_path: Path) -> None:
    make_table(tmp_path)
    uri = f"sqlite:///{tmp_path}/catalog.db?timeout=7"
    catalog = BoundedSqlCatalog("default", {"uri": uri, "init_catalog_tables": "false"}, 20)
    with catalog.engine.connect() as connection:
        assert connection.execute(text("PRAGMA busy_timeout")).scalar() == 7_000
    assert catalog.load_table("db.events").name() == ("db", "events")


def test_every_driver_that_may_wait_without_end_has_a_bound() -> None:
    assert connection_timeouts("psycopg2", 0.2)["connect_timeout"] == 2, "libpq takes 1 for 2"
    assert connection_timeouts("psycopg", 20) == connection_timeouts("psycopg2", 20)
    assert connection_timeouts("pg8000", 20) == {"timeout": 20}
    assert connection_timeouts("pysqlite", 20) == {}
