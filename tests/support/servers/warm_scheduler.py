"""Airflow's scheduler with the modules of all tasks imported: `python -P warm_scheduler.py ARGUMENT...`

Its workers and their tasks are forks of it. Each task of a real scheduler imports icefloe, PyIceberg and Spark's
provider once more, which takes most of its CPU.
"""

import os
import sys


def main() -> int | None:
    sys.path.append(os.environ["AIRFLOW__CORE__PLUGINS_FOLDER"])
    import pyiceberg.catalog.sql  # noqa: F401
    from airflow.__main__ import main as airflow

    import icefloe.orchestration.dags.dag_factory
    import icefloe.orchestration.tasks.calls  # noqa: F401

    sys.argv[0] = "airflow"
    return airflow()


if __name__ == "__main__":
    sys.exit(main())
