from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from icefloe.orchestration.page.batch_page import batch_document
from icefloe.orchestration.page.dag_state import DagState
from icefloe.orchestration.page.document_cache import Found
from icefloe.orchestration.tasks.task_documents import PipelineFacts
from support.pipelines.pipeline_files import pipeline_from

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
FILES = {"type": "files", "path": "file:///var/changes"}
INDEX = {"type": "opensearch", "index": "flights"}


def document(folder: Path, sink: dict[str, Any], *, is_backfill: bool = False, **report: Any) -> dict[str, Any]:
    dag = DagState(
        dag_id="a", facts=PipelineFacts(pipeline=pipeline_from(folder, "a", sink=sink)), is_backfill=is_backfill
    )
    return batch_document(dag, 0, [], None, Found(value={"batch_number": 0, **report}), [], now=NOW)


@pytest.mark.parametrize(
    ("sink", "is_backfill", "delivers"), [(FILES, False, False), (INDEX, False, True), (INDEX, True, False)]
)
def test_only_batches_that_go_on_to_a_sink_have_deliver_in_their_routes(
    tmp_path: Path, sink: dict[str, Any], is_backfill: bool, delivers: bool
) -> None:
    further = ["deliver"] if delivers else []
    assert document(tmp_path, sink, is_backfill=is_backfill)["routes"] == {
        "insert_only": ["insert_only", *further],
        "shuffle": ["shuffle_write", "coalesce", "shuffle_read", *further],
        "nothing_to_do": ["nothing_to_do", *further],
    }


def test_the_figures_of_a_delivery_are_those_of_the_report(tmp_path: Path) -> None:
    delivery = {"sink": "opensearch", "documents": 3}
    assert document(tmp_path, INDEX, delivery=delivery)["batch"]["delivery"] == delivery
    assert document(tmp_path, FILES)["batch"]["delivery"] is None
