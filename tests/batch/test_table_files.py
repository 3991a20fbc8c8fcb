import json
import os
import pickle
from dataclasses import replace

import pytest

from batch.workshop import InOrder, Workshop
from icefloe.batch.credentials import Credentials
from icefloe.batch.document import Plan
from icefloe.batch.file_access import run_phase_on_files
from icefloe.batch.phases import Phase, run_phase
from icefloe.batch.table_files import TableFiles, table_files
from icefloe.documents import dump_document, load_document
from icefloe.iceberg.confined_io import FileElsewhereError
from icefloe.iceberg.file_places import FilePlaces, Place


def test_every_task_opens_files_in_the_places_of_the_table_only(workshop: Workshop) -> None:
    workshop.append([1])
    batch = workshop.open()
    files = batch.reference.files
    assert files is not None
    others = FilePlaces(places=(Place(scheme="s3", authority="others"),))
    confined = batch.reference.with_files(replace(files, places=others))
    with pytest.raises(FileElsewhereError, match=r"names the file file://.*, which is outside s3://others: "):
        run_phase(Phase.INSERT_ONLY, confined, InOrder())
    run_phase_on_files(Phase.INSERT_ONLY, batch.reference, InOrder(), environ=os.environ)


def test_what_travels_to_tasks_shows_no_secret(workshop: Workshop) -> None:
    workshop.append([1])
    files = TableFiles(properties={"s3.secret-access-key": "hidden"}, places=FilePlaces(places=()))
    assert "hidden" not in repr(files)
    assert pickle.loads(pickle.dumps(files)) == files


def test_a_plan_records_what_is_allowed_as_it_is_written_and_nothing_by_default(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.append([1])
    before = workshop.open().plan
    assert "allowed_locations" not in json.loads(dump_document(before))
    monkeypatch.setenv("ARCHIVE", "archive")
    written = workshop.set(allowed_locations=["s3://${ARCHIVE}/events"], name="other", sink={
        "type": "files", "path": f"file://{workshop.folder}/other",
    }).open().plan  # fmt: skip
    assert written.allowed_locations == ("s3://${ARCHIVE}/events",)
    assert load_document(Plan, dump_document(written), what="it") == written
    found = table_files(written, Credentials(), os.environ, allowed_locations=written.allowed_locations)
    assert str(found.places.places[-1]) == "s3://archive/events"
    assert (
        table_files(before, Credentials(), os.environ, allowed_locations=()).places.places == found.places.places[:-1]
    )
