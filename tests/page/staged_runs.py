"""Runs of DAGs in this process, as `airflow dags test` does, and states that only a scheduler would leave."""

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from sqlalchemy import delete, select, update

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.phase_record import LostNode, PhaseRecord
from icefloe.batch.plan_document import phase_key
from icefloe.batch.status import PipelineStatus
from icefloe.documents import dump_document
from icefloe.flow import FlowTask
from icefloe.orchestration.connections import resolve_credentials
from icefloe.orchestration.tasks.plugin_parts import current_writer
from icefloe.pipeline.model import Pipeline

__all__ = ["StagedRuns"]


@dataclass(frozen=True, slots=True)
class StagedRuns:
    """The DAGs of a home."""

    folder: Path
    dags: dict[str, Any]

    @classmethod
    def start(cls, folder: Path) -> Self:
        """Makes Airflow's database and loads the DAGs."""
        initdb()
        DagBundlesManager().sync_bundles_to_db()
        bag = DagBag(folder / "dags", bundle_name="dags-folder")
        if bag.import_errors:
            raise RuntimeError(f"the DAGs cannot be imported: {bag.import_errors}")
        sync_bag_to_db(bag, "dags-folder", None)
        with create_session() as session:
            session.execute(update(DagModel).where(DagModel.dag_id != "clicks").values(is_paused=False))
        return cls(folder, bag.dags)

    def run(self, dag_id: str, **conf: Any) -> str:
        """One run; returns how it ended."""
        return str(self.dags[dag_id].test(run_conf=conf or None).state)

    def pause(self, dag_id: str) -> None:
        """Switches a DAG off."""
        with create_session() as session:
            session.execute(update(DagModel).where(DagModel.dag_id == dag_id).values(is_paused=True))

    def publish_status(self, name: str) -> None:
        """The state of the table for the next plan."""
        PipelineStatus.publish(self._session(name), phase="plan")

    def _session(self, name: str) -> PipelineSession:
        pipeline = Pipeline.load(self.folder / "dags" / "pipelines" / f"{name}.yaml", environ=os.environ)
        credentials = resolve_credentials(pipeline)
        return PipelineSession.open(pipeline, credentials=credentials, environ=os.environ, writer=current_writer())

    def leave_open(self, name: str, batch: int, *, at: str) -> None:
        """Turns the last run of a pipeline into one that is in the middle of a task, its batch not committed."""
        checkpoint = self.folder / "storage" / "checkpoints" / name
        for kind in ("commits", "reports"):
            (checkpoint / kind / f"{batch}.json").unlink()
        status = json.loads((checkpoint / "status.json").read_text())
        status["recent"] = [each for each in status["recent"] if each["batch"] != batch]
        (checkpoint / "status.json").write_text(json.dumps(status))
        self.publish_status(name)
        session = self._session(name)
        begun = PhaseRecord(
            phase=at,
            attempts=1,
            is_running=True,
            spark_application_id="app-20261121170912-0003",
            spark_ui="http://spark-driver.example.com:4040",
            nodes_lost=(LostNode(address="worker-2.example.com:4995", map_outputs=3, reason="it does not answer"),),
        )
        offset = session.checkpoint.offset(batch)
        assert offset is not None
        session.reference(offset).folder.put(phase_key(at), dump_document(begun))
        done = [task.value for task in FlowTask][: list(FlowTask).index(FlowTask(at))]
        with create_session() as session:
            run = session.scalars(select(DagRun).where(DagRun.dag_id == name).order_by(DagRun.id.desc())).first()
            run._state, run.end_date = "running", None
            mine = (TaskInstance.dag_id == name, TaskInstance.run_id == run.run_id)
            later = update(TaskInstance).where(
                *mine, TaskInstance.task_id.not_in([*done, FlowTask.NOTHING_TO_DO.value])
            )
            session.execute(later.values(state=None, start_date=None, end_date=None, try_number=0))
            now = update(TaskInstance).where(*mine, TaskInstance.task_id == at)
            session.execute(now.values(state="running", start_date=datetime.now(UTC), try_number=1))
            session.execute(delete(XComModel).where(XComModel.dag_run_id == run.id, XComModel.task_id == "commit"))
