"""Changes as a DataFrame, computed by the executors of somebody else's Spark session.

Read in this order:

- `changes_frame`: `icefloe.spark.read_changes`: lazily, with Spark's own shuffle if rows are removed
- `data_source`: ``spark.read.format("icefloe")``
- `spark_rows`: rows in types that Spark has
"""

__all__ = ["changes_frame"]
