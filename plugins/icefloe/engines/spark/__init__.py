"""Phases as Spark applications.

Read in this order:

- `application`: the arguments of spark-submit and their limits; a driver ends with its submitter
- `submit`: starts an application and waits for it
- `job`: the body of ``spark_jobs/*.py``
- `engine`: one Spark task per map task or reduce range
- `workers`: results with their executors, and libraries of workers
- `master`: the Spark of a connection, and its Java
- `spark_conf`: memory, environment, authentication and encryption; tasks that failed on one executor go to others
"""

__all__ = ["application", "job", "master", "spark_conf", "submit"]
