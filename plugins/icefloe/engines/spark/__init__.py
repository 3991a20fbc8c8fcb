"""Phases as Spark applications.

Read in this order:

- `application`: the arguments of spark-submit, and their limits
- `submit`: starts an application and waits for it
- `submitter`: a driver ends if the process that submitted it is gone
- `job`: the body of ``spark_jobs/*.py``
- `engine`: one Spark task per map task or reduce range
- `workers`: results with their executors, and libraries of workers
- `executors`: tasks that failed on one executor go to others
- `master`: the Spark of a connection, and its Java
- `spark_conf`: memory, environment, authentication and encryption
"""

__all__ = ["application", "job", "master", "spark_conf", "submit"]
