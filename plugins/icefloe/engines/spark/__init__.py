"""Phases as Spark applications.

Read in this order:

- `submit`: starts an application and waits for it
- `job`: the body of ``spark_jobs/*.py``, which ends with its submitter
- `application`: the same for an installed package
- `engine`: one Spark task per map task or reduce range; the libraries of workers
- `master`: the Spark of a connection; its memory, environment, authentication and encryption
"""

__all__ = ["engine", "job", "master", "submit"]
