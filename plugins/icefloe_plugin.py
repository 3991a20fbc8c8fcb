"""Tells Airflow that icefloe is installed. Every task process imports this file: it must stay light."""

from airflow.plugins_manager import AirflowPlugin

__all__ = ["IcefloePlugin"]


class IcefloePlugin(AirflowPlugin):  # type: ignore[misc]
    """Shows as a plugin in Airflow's list; pages and links will be registered here."""

    name = "icefloe"
