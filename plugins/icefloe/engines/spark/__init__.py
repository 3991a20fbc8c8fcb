"""Phases as Spark applications.

Read in this order:

- `application`: the arguments of spark-submit and their limits; a driver ends with its submitter
- `submit`: starts an application and waits for it
- `job`: the body of ``spark_jobs/*.py``
- `engine`: one Spark task per map task or reduce range
- `workers`: errors that another machine may not meet, and libraries of workers
- `master`: the Spark of a connection
- `spark_conf`: memory, environment, authentication and encryption
"""

__all__ = ["application", "job", "master", "spark_conf", "submit"]
