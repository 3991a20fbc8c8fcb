import pickle
from dataclasses import replace

import pytest

from icefloe.batch.context.batch_folder import BatchFileMissingError
from icefloe.batch.context.map_inputs import MapInputs
from icefloe.batch.context.references import BatchReference, TaskReference
from icefloe.batch.credentials import Credentials
from icefloe.batch.run_settings import RunSettings
from icefloe.storage.requests import RequestTotals
from support.pipelines.workshop import Workshop


def test_a_reference_travels_and_opens_the_batch_elsewhere(workshop: Workshop) -> None:
    workshop.append(range(5))
    batch = workshop.open()
    reference, files = pickle.loads(pickle.dumps((TaskReference.of(batch.reference, batch.plan), batch.files)))
    running = reference.open()
    inputs = MapInputs(folder=running.folder, io=files.open(running.plan))
    assert running.plan == batch.plan
    rows = [rows for file in inputs.file_effects(0) for rows in inputs.row_reader().read(file)]
    assert sum(each.batch.num_rows for each in rows) == 5


def test_references_to_tasks_open_no_catalog(workshop: Workshop) -> None:
    workshop.append(range(5))
    batch = workshop.open()
    given = Credentials(catalog_properties={"token": "of the catalog"}, storage_options={"token": "of the storage"})
    reference = TaskReference.of(replace(batch.reference, credentials=given), batch.plan)
    travelling = reference.batch.credentials
    assert (travelling.catalog_properties, travelling.storage_options) == ({}, {"token": "of the storage"})


def test_tasks_bring_the_plan_along_and_make_no_request_for_it(workshop: Workshop) -> None:
    workshop.append(range(5))
    batch = workshop.open()
    running = TaskReference.of(batch.reference, batch.plan).open()
    assert running.plan is batch.plan
    assert running.requests.taken() == RequestTotals()


def test_a_missing_plan_says_what_to_run() -> None:
    reference = BatchReference(
        plan_url="memory://no-plan/7/plan.json", credentials=Credentials(), settings=RunSettings()
    )
    with pytest.raises(
        BatchFileMissingError,
        match=r"there is no plan at memory://no-plan/7/plan\.json: .* clear the task plan of this DAG",
    ):
        reference.open()
