"""Phases as Spark applications.

Read in this order:

- `application`: the arguments of spark-submit, the same from Airflow and from the command line, and their limits
- `submit`: starts an application and waits for it
- `submitter`: a driver ends if the process that submitted it is gone
- `job`: the body of ``spark_jobs/*.py``, and the error of a JVM that is gone
- `engine`: one Spark task per map task or reduce range
- `workers`: results with the executors that ran their tasks, and whether workers have the libraries of the driver
- `executors`: tasks that failed on one executor go to others
- `master`: which Spark a connection names, and the Java that spark-submit will find
- `spark_conf`: memory and environment that Spark cannot know; authentication and encryption
"""

__all__ = ["application", "job", "master", "spark_conf", "submit"]
