"""Connections and environment variables: that Airflow, PyIceberg and the stores know them."""

import os
from pathlib import Path

from airflow.configuration import conf
from airflow.models.connection import Connection
from obstore.store import S3Store
from pyiceberg.utils.config import Config

from icefloe.batch.credentials import Credentials
from icefloe.engines.spark.master import spark_master
from icefloe.orchestration.connections import object_store_options

__all__ = ["check_connection", "check_variable"]


def check_variable(name: str, value: str) -> None:
    """A variable that is set, and that somebody reads."""
    match name.split("__"):
        case ["AIRFLOW", section, option]:
            known = conf.configuration_description[section.lower()]["options"]
            assert option.lower() in known, f"Airflow has no setting {name}"
            assert Path(value).exists() or not option.endswith("_FOLDER"), f"{value} does not exist"
        case ["PYICEBERG_CATALOG", catalog, *property_words]:
            assert value in (Config().get_catalog_config(catalog.lower()) or {}).values()
            assert property_words
        case [whole] if whole.startswith("AIRFLOW_CONN_"):
            check_connection(whole.removeprefix("AIRFLOW_CONN_").lower())
        case [whole] if whole.startswith("AWS_"):
            S3Store("lake", config={whole.lower(): value})  # type: ignore[arg-type]  # refuses a name that it would not read
        case _:
            raise AssertionError(f"who reads the variable {name}? Say so in tests/docs/settings.py")


def check_connection(conn_id: str) -> None:
    """A connection that Airflow finds and icefloe can use."""
    connection = Connection.get_connection_from_secrets(conn_id)
    match connection.conn_type:
        case "iceberg":
            assert connection.host or connection.extra_dejson["uri"]
        case "git":
            assert connection.host
        case "spark":
            assert spark_master(conn_id, connection, conf={})
        case None:
            # A sink's, for commands outside Airflow: the sink's type says what it is.
            assert Credentials.from_environment(os.environ, sink_conn_id=conn_id).sink_connection["login"]
        case _:
            assert object_store_options(connection)
