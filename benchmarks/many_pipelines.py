"""The time of Airflow's DAG processor for a folder of many pipeline files, imports aside.

``PYTHONPATH=plugins python -m benchmarks.many_pipelines``
"""

import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from rich.console import Console

PIPELINES: Final = 200
TARGET_SECONDS: Final = 3
_PIPELINE: Final = """\
version: 1
catalog: lakehouse
table: sales.orders_{number}
identifier_columns: [order_id]
storage: s3://lake/icefloe
storage_conn_id: lake_s3
schedule: "*/10 * * * *"
default_args: {{retries: 5, pool: icefloe, queue: spark}}
spark: {{conn_id: spark_default, conf: {{spark.executor.instances: "4"}}}}
sink: {{type: files, path: s3://lake/changes/orders_{number}}}
"""


def main() -> int:
    say = partial(Console().print, highlight=False, soft_wrap=True)
    started = perf_counter()
    import airflow.sdk  # noqa: F401 - measured

    airflow_seconds = perf_counter() - started
    started = perf_counter()
    from icefloe.orchestration.dags.dag_factory import make_dags

    say(f"imports    Airflow {airflow_seconds:.2f} s, icefloe {perf_counter() - started:.2f} s more")
    with TemporaryDirectory() as folder:
        for number in range(PIPELINES):
            (Path(folder) / f"orders_{number}.yaml").write_text(_PIPELINE.format(number=number))
        (Path(folder) / "broken.yaml").write_text("version: 1\ntable: [\n")
        started = perf_counter()
        dags = make_dags(Path(folder))
        seconds = perf_counter() - started
    broken = [dag_id for dag_id, dag in dags.items() if "broken" in dag.tags]
    say(f"{PIPELINES} files  {seconds:.2f} s for {len(dags)} DAGs, {len(broken)} of them red (target {TARGET_SECONDS})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
