"""The DAG of a broken pipeline file: it shows the fault."""

from pathlib import Path

from airflow.sdk import DAG, task

from icefloe.errors import TerminalError
from icefloe.orchestration.dags.documentation import broken_page
from icefloe.orchestration.tasks.failures import airflow_failures
from icefloe.orchestration.tasks.pipeline_facts import broken_document

BROKEN = "broken"


def broken_dag(dag_id: str, path: Path, sentence: str) -> DAG:
    """A DAG whose page and only task show the fault of the file.

    Args:
        dag_id: of the DAG.
        path: of the file.
        sentence: the fault, its place, and the expected value.
    """
    with DAG(
        dag_id,
        schedule=None,
        catchup=False,
        tags=["icefloe", BROKEN],
        description=f"{path.name} makes no DAG until it is corrected",
        doc_md=broken_page(path, sentence),
    ) as dag:

        @task(retries=0, doc_md=broken_page(path, sentence), doc_json=broken_document(path, sentence))
        def broken_pipeline_file() -> None:
            with airflow_failures("broken_pipeline_file"):
                raise TerminalError(sentence)

        broken_pipeline_file()
    return dag
