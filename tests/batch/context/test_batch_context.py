import pickle
from dataclasses import replace

import pytest

from batch.workshop import Workshop
from icefloe.batch.context.batch_context import PlanMissingError, TaskReference
from icefloe.batch.credentials import Credentials
from icefloe.batch.run_settings import RunSettings
from icefloe.errors import TerminalError


def test_a_reference_travels_and_opens_the_batch_elsewhere(workshop: Workshop) -> None:
    workshop.append(range(5))
    batch = workshop.open()
    context = pickle.loads(pickle.dumps(batch.reference)).open()
    assert context.plan == batch.plan
    rows = [rows for file in context.file_rows(0) for rows in context.row_reader().read(file)]
    assert sum(each.batch.num_rows for each in rows) == 5


def test_a_context_without_the_tables_files_says_so(workshop: Workshop) -> None:
    workshop.append(range(5))
    batch = workshop.open()
    context = replace(batch.reference, files=None).open()
    with pytest.raises(TerminalError, match="batch 0 was opened without the table's files"):
        context.row_reader()


def test_a_missing_plan_says_what_to_run() -> None:
    reference = TaskReference(
        plan_url="memory://no-plan/7/plan.json", credentials=Credentials(), settings=RunSettings()
    )
    with pytest.raises(PlanMissingError, match=r"there is no plan at memory://no-plan/7/plan\.json: run the plan task"):
        reference.open()
