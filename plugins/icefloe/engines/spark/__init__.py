"""Phases as Spark applications.

Read in this order:

- `application`: the arguments of spark-submit, the same from Airflow and from the command line
- `submit`: starts an application and waits for it
- `submitter`: a driver ends if the process that submitted it is gone
- `job`: the body of ``spark_jobs/*.py``, and the error of a JVM that is gone
- `engine`: one Spark task per map task or reduce range
- `placed_results`: results, and the executors that ran their tasks
- `executors`: tasks that failed on one executor go to others
- `master`: which Spark a connection names
- `job_limits`: whether jobs can read the table, and be given what opens it
- `spark_conf`: memory and environment that Spark cannot know
- `rpc`: authentication and encryption between driver and executors
- `java`: the Java that spark-submit will find
- `worker_libraries`: whether workers have the libraries of the driver
"""

__all__ = ["application", "java", "job", "job_limits", "master", "spark_conf", "submit"]
