"""Pins what we replace in PyIceberg 0.12.0's catalogs, and sees whose properties reach a FileIO."""

import inspect
import json
from pathlib import Path

import pytest
from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import load_file_io
from pyiceberg.table import Table

from icefloe.iceberg.catalog.catalogs import load_table
from support.fakes.rest_server import rest_server
from support.tables.planning_tables import make_table


class OwnCatalog(SqlCatalog):
    """A class of a user's own, which makes FileIOs by its own means."""

    def load_table(self, identifier: str | tuple[str, ...]) -> Table:
        loaded = super().load_table(identifier)
        loaded.io = load_file_io({**self.properties, **loaded.metadata.properties}, loaded.metadata_location)
        return loaded


def test_a_class_of_a_user_s_own_hands_no_properties_of_a_table_on(tmp_path: Path) -> None:
    make_table(tmp_path, **{"s3.endpoint": "http://127.0.0.1:9", "s3.region": "elsewhere"})
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "py-catalog-impl": f"{__name__}.OwnCatalog"}
    given = load_table({**place, "s3.endpoint": "https://store.example"}, "db.events").io.properties
    assert given["s3.endpoint"] == "https://store.example"
    assert "s3.region" not in given


def test_a_rest_catalog_s_own_word_counts_the_table_s_vended_credentials_most(tmp_path: Path) -> None:
    table = make_table(tmp_path)
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
