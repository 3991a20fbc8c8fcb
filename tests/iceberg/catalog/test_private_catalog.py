"""Pins what we replace in PyIceberg 0.12.0's catalogs, and sees that a table's properties reach no FileIO."""

import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from icefloe.iceberg.catalog.catalogs import load_table
from icefloe.iceberg.catalog.confined_io import ConfinedIO
from support.fakes.rest_server import rest_server
from support.tables.planning_tables import make_table, rows

MARKING = """
import pathlib
from pyiceberg.io.pyarrow import PyArrowFileIO as Files
pathlib.Path({mark!r}).touch()
"""


class OwnCatalog(SqlCatalog):
    """A class of a user's own, which makes FileIOs by its own means."""

    def load_table(self, identifier: str | tuple[str, ...]) -> Table:
        loaded = super().load_table(identifier)
        loaded.io = load_file_io({**self.properties, **loaded.metadata.properties}, loaded.metadata_location)
        return loaded


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """Table properties that send requests elsewhere and import a class that leaves a mark."""
    (tmp_path / "hostile_files.py").write_text(MARKING.format(mark=str(tmp_path / "mark")))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "hostile_files", raising=False)
    return {
        "py-io-impl": "hostile_files.Files",
        "s3.endpoint": "http://127.0.0.1:9",
        "s3.proxy-uri": "http://127.0.0.1:9",
        "s3.region": "elsewhere",
    }


@pytest.fixture
def table(tmp_path: Path, hostile: Mapping[str, str]) -> Table:
    """A table of the writer's; PyIceberg itself would import the class."""
    made = make_table(tmp_path)
    made.append(rows(1))
    with made.transaction() as transaction:
        transaction.set_properties(dict(hostile))
    (tmp_path / "mark").unlink(missing_ok=True)
    sys.modules.pop("hostile_files", None)
    return made


@pytest.fixture(params=["sql", "rest", "own"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path, table: Table) -> Iterator[Mapping[str, str]]:
    """The properties of a catalog that has the table."""
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    with ExitStack() as stack:
        if request.param == "rest":
            metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_bytes())
            place = {"type": "rest", "uri": stack.enter_context(rest_server(metadata, table.metadata_location))}
        elif request.param == "own":
            place["py-catalog-impl"] = f"{__name__}.OwnCatalog"
        yield {**place, "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO", "s3.endpoint": "https://store.example"}


def test_a_table_s_properties_reach_no_file_io(
    catalog: Mapping[str, str], hostile: Mapping[str, str], tmp_path: Path
) -> None:
    loaded = load_table(catalog, "db.events")
    assert isinstance(loaded.io, ConfinedIO)
    assert type(loaded.io._opener) is PyArrowFileIO
    assert loaded.io.properties["s3.endpoint"] == "https://store.example"
    assert not loaded.io.properties.keys() & {"s3.proxy-uri", "s3.region"}
    assert loaded.metadata.properties.items() >= hostile.items()
    if "py-catalog-impl" not in catalog:
        assert not (tmp_path / "mark").exists()
        assert "hostile_files" not in sys.modules


def test_a_rest_catalog_s_own_word_counts_the_table_s_vended_credentials_most(table: Table) -> None:
    metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_bytes())
    prefix = table.metadata_location.rpartition("/")[0]
    with rest_server(
        metadata,
        table.metadata_location,
        overrides={"s3.endpoint": "https://of.config", "s3.region": "of.config"},
        config={"s3.endpoint": "https://of.the.table", "s3.session-token": "of the table"},
        storage_credentials=[
            {"prefix": prefix, "config": {"s3.session-token": "of the prefix"}},
            {"prefix": "s3://elsewhere", "config": {"s3.session-token": "of another"}},
        ],
    ) as uri:
        given = load_table({"type": "rest", "uri": uri}, "db.events").io.properties
    assert given["s3.endpoint"] == "https://of.the.table"
    assert given["s3.region"] == "of.config"
    assert given["s3.session-token"] == "of the prefix"


def test_the_methods_that_are_replaced_are_those_by_which_pyiceberg_makes_file_ios() -> None:
    for each in (Catalog, RestCatalog):
        assert list(inspect.signature(each._load_file_io).parameters) == ["self", "properties", "location"]
    assert list(inspect.signature(RestCatalog._response_to_table).parameters) == [
        "self", "identifier_tuple", "table_response",
    ]  # fmt: skip
    assert list(inspect.signature(RestCatalog._resolve_storage_credentials).parameters) == [
        "storage_credentials", "location",
    ]  # fmt: skip
    assert "self._response_to_table(" in inspect.getsource(RestCatalog.load_table)
    assert {kind.value for kind in AVAILABLE_CATALOGS} == {
        "rest", "hive", "glue", "dynamodb", "sql", "in-memory", "bigquery",
    }  # fmt: skip


@pytest.mark.parametrize("module", ["sql", "glue", "hive", "dynamodb", "bigquery_metastore"])
def test_every_other_catalog_makes_a_table_s_file_io_by_the_replaced_method_only(module: str) -> None:
    source = (Path(inspect.getfile(Catalog)).parent / f"{module}.py").read_text()
    assert "io=self._load_file_io(metadata.properties, metadata_location)" in source
    makes = source.count("load_file_io(") - source.count("._load_file_io(")
    assert makes == source.count("load_file_io(properties=self.properties, location=metadata_location)")
