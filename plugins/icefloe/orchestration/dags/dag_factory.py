"""Makes the DAGs of a folder of pipeline files. A broken file is one red DAG; the other DAGs stay."""

import logging
import re
from collections.abc import Container, Iterator, Mapping
from itertools import chain, count
from pathlib import Path

from airflow.sdk import DAG, task

from icefloe.errors import IcefloeError, TerminalError, one_line
from icefloe.orchestration.dags.documentation import broken_page
from icefloe.orchestration.dags.pipeline_dags import backfill_dag, pipeline_dag
from icefloe.orchestration.tasks.failures import airflow_failures
from icefloe.orchestration.tasks.pipeline_facts import broken_document
from icefloe.pipeline.pipeline_file import load_pipeline, pipeline_paths, refuse_unbuilt

__all__ = ["make_dags"]

logger = logging.getLogger(__name__)

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


_NOT_IN_A_DAG_ID = re.compile(r"[^\w.-]", re.ASCII)


def make_dags(folder: Path) -> dict[str, DAG]:
    """Two DAGs for each pipeline file of a folder, by DAG id; for a broken file one DAG that shows the fault.

    Files that make one DAG are all broken: Airflow knows a DAG by its id, so any of them would go on with its runs.

    The result follows from the files alone, so that parsing them again makes no new version of a DAG. ``${ENV}`` stays
    unexpanded: a variable that the DAG processor lacks is no reason for a red DAG.
    """
    whole: dict[Path, dict[str, DAG]] = {}
    broken: list[tuple[Path, str]] = []
    for path in pipeline_paths(folder):
        try:
            whole[path] = {dag.dag_id: dag for dag in _dags_of(path)}
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one file must not take the others along
            logger.debug("%s makes no DAG: %s", path, error)
            broken.append((path, error.sentence if isinstance(error, IcefloeError) else f"{path}: {one_line(error)}"))
    dags: dict[str, DAG] = {}
    for path, made in whole.items():
        try:
            _refuse_shared(path, whole)
        except TerminalError as error:
            broken.append((path, error.sentence))
        else:
            dags |= made
    # After the whole files, so that a broken one takes no id from them, nor the one that several files want.
    taken = set().union(*whole.values())
    for path, sentence in broken:
        dag = broken_dag(_free_id(path, taken), path, sentence)
        dags[dag.dag_id] = dag
        taken.add(dag.dag_id)
    return dags


def _free_id(path: Path, taken: Container[str]) -> str:
    """The id of a file's DAG that no other DAG has: its stem as Airflow allows it, marked and numbered if need be."""
    wanted = _NOT_IN_A_DAG_ID.sub("_", path.stem)
    marked = f"{wanted}__file"
    numbered = (f"{marked}{number}" for number in count(2))
    return next(each for each in chain((wanted, marked), numbered) if each not in taken)


def _dags_of(path: Path) -> Iterator[DAG]:
    pipeline = load_pipeline(path)
    refuse_unbuilt(pipeline)
    yield pipeline_dag(pipeline, path)
    yield backfill_dag(pipeline, path)


def _refuse_shared(path: Path, whole: Mapping[Path, Mapping[str, DAG]]) -> None:
    """Stops a file whose DAG another file makes too: a copy must not take over a DAG that is switched on."""
    dag_id = next(iter(whole[path]))
    others = [str(other) for other, made in whole.items() if other != path and dag_id in made]
    if others:
        raise TerminalError(
            f"{path}: the name {dag_id!r} is taken by another pipeline file of this folder, {' and '.join(others)}: "
            "none of them makes a DAG; leave the name to the file that has batches already, and give the others their "
            "own",
            path=str(path),
            dag_id=dag_id,
        )
