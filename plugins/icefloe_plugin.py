"""Registers icefloe's page with Airflow. Every task process imports this file: it must stay light."""

from icefloe.orchestration.airflow_plugin import IcefloePlugin

__all__ = ["IcefloePlugin"]
