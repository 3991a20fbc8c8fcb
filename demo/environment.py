"""The environment variables with which one process runs Airflow, Spark and icefloe on the demo's own catalog."""

import json
from pathlib import Path
from typing import Final

from demo.flights_table import CATALOG, catalog_properties

__all__ = ["PIPELINES", "ROOT", "environment"]

ROOT: Final = Path(__file__).resolve().parents[1]
PIPELINES: Final = ROOT / "demo" / "pipelines"


def environment(folder: Path) -> dict[str, str]:
    """What must be set before Airflow is imported; everything that a run writes stays in ``folder``."""
    properties = catalog_properties(folder)
    return {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        f"AIRFLOW_CONN_{CATALOG.upper()}": json.dumps({"conn_type": "iceberg", "extra": properties}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[*]"}),
        # `icefloe verify` runs outside Airflow, where the catalog is looked up in PyIceberg's own configuration.
        **{f"PYICEBERG_CATALOG__{CATALOG.upper()}__{key.upper()}": value for key, value in properties.items()},
        "ICEFLOE_DEMO": str(folder),
    }
