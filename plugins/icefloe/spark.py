"""Spark as a reader of changes: DataFrames that the executors of your session compute.

from icefloe.spark import read_changes

changes = read_changes(spark, table, after_snapshot_id=4711)
changes.where("_change_type = 'DELETE'").show()
"""

from icefloe.engines.spark_reader.changes_frame import SparkReader

read_changes, register = SparkReader.read_changes, SparkReader.register
