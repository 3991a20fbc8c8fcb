"""The environment of Airflow in tests; it must be imported before the first import of airflow.

A home of its own in a temporary folder, whose dags folder holds the real DAG file: `dag.test()` runs what lies there.
"""

import atexit
import os
import shutil
import sys
from pathlib import Path

from support.owned_folders import owned_folder, use_quick_folder

use_quick_folder()

REPOSITORY = Path(__file__).parents[1]
HOME = owned_folder("icefloe-airflow")
DAGS = HOME / "dags"
PIPELINES = DAGS / "pipelines"

_SETTINGS = {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(REPOSITORY / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    # Tests give one DAG another table within seconds. Airflow would keep the older DAG for half a minute.
    "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
}

if "airflow" in sys.modules:
    raise ImportError("airflow was imported before its environment was set: import airflow_environment in the conftest")

PIPELINES.mkdir(parents=True)
for name in ("icefloe_pipelines.py", "icefloe_upkeep.py"):
    shutil.copy(REPOSITORY / "dags" / name, DAGS)
os.environ.update(_SETTINGS)
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
