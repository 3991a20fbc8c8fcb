"""The Spark connection of a pipeline, checked before a batch is opened and again before a job is submitted."""

import logging
import os

from icefloe.engines.spark.application import refuse_missing_jobs, refuse_unshared_storage
from icefloe.engines.spark.master import SparkMaster, spark_master
from icefloe.engines.spark.spark_conf import spark_advice
from icefloe.orchestration.connections.airflow_connections import find_connection
from icefloe.pipeline.model import Pipeline

__all__ = ["usable_master"]

logger = logging.getLogger(__name__)


def usable_master(pipeline: Pipeline) -> SparkMaster:
    """The Spark master that runs the jobs of an expanded pipeline.

    Raises:
        SparkConnectionError: the connection is missing or misleads Airflow.
        TerminalError: the pipeline keeps files on a disk that the master's workers do not share, or the Spark
            applications are not installed.
    """
    refuse_missing_jobs()
    spark = pipeline.spark
    master = spark_master(spark.conn_id, find_connection(spark.conn_id), conf=spark.conf)
    refuse_unshared_storage(pipeline, master)
    for advice in spark_advice(spark.conf, master=master, environ=os.environ):
        logger.warning("%s: %s", pipeline.name, advice)
    return master
