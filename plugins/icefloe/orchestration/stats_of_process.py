"""Metrics where Airflow does not set them up: in the triggerer's runner and in callbacks of the DAG processor."""

from functools import cache

from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

__all__ = ["set_up_stats"]


@cache
def set_up_stats() -> None:
    """Does, once in a process, what Airflow does where a task begins; in a task there is no need."""
    stats.initialize(
        factory=stats_utils.get_stats_factory(),
        export_legacy_names=conf.getboolean("metrics", "legacy_names_on", fallback=True),
    )
