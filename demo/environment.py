"""The environment in which one process runs Airflow, Spark and icefloe on the demo's own catalog."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from demo.flights_table import CATALOG, catalog_properties

__all__ = ["ROOT", "demo_environment"]

ROOT: Final = Path(__file__).resolve().parents[1]


def demo_environment(
    environ: Mapping[str, str], folder: Path, connections: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """The variables to set before Airflow is imported; everything that a run writes stays in ``folder``.

    Settings of another Airflow on this machine are left out: its database is not the demo's.

    Args:
        environ: the variables of this process.
        folder: of everything that a run writes.
        connections: further Airflow connections, by the names of their variables.
    """
    kept = {name: value for name, value in environ.items() if not name.startswith("AIRFLOW")}
    return kept | {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "ICEFLOE_OWNER": "icefloe-demo",
        f"AIRFLOW_CONN_{CATALOG.upper()}": json.dumps({"conn_type": "iceberg", "extra": catalog_properties(folder)}),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[*]"}),
        "ICEFLOE_DEMO": str(folder),
        **connections,
    }
