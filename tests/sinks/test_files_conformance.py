"""A sink of sorted files passes the suite for sinks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from icefloe.errors import TransientError
from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.change_files import FilesDelivery
from icefloe.sinks.file_form import FileForm
from icefloe.sinks.sink import PartDelivery
from icefloe.storage.location import open_store
from icefloe.testing.conformance import SinkConformance
from icefloe.testing.processes import OutwardCalls

pytestmark = pytest.mark.extended

OUTWARD = frozenset(["create", "put", "delete", "get", "find", "get_ranges", "list", "size"])


class SortedFiles(FilesDelivery):
    """Gets each part sorted, as from a pipeline."""

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:
        if self.order_by:
            part = self.order(batch).sorted_part(part, batch.schema, memory_bytes=1 << 20)
        return super().deliver(batch, begun, part)


class OverFolders(SinkConformance):
    form: ClassVar[FileForm]

    @pytest.fixture(autouse=True)
    def _in_folder(self, tmp_path: Path) -> None:
        self.folder, self.count = tmp_path, 0

    # A folder is never taken over: numbers of batches of two origins would collide.
    test_a_claim_that_wakes_up_late_takes_nothing: Any = None
    test_a_destination_that_is_taken_over_belongs_to_the_new_origin: Any = None
    test_a_process_of_the_origin_before_that_wakes_up_late_changes_nothing: Any = None
    # Files keep the columns that they were written with, which `icefloe verify` knows.
    test_another_schema_arrives_or_is_refused: Any = None
    test_other_fields_of_structs_arrive_or_are_refused: Any = None

    def new_destination(self) -> str:
        self.count += 1
        return (self.folder / str(self.count)).as_uri()

    def open_sink(self, destination: str, calls: OutwardCalls) -> FilesDelivery:
        return SortedFiles(calls.watch(open_store(destination), only=OUTWARD), form=self.form)

    def lost_connection(self) -> Exception:
        return TransientError("the connection was lost")


class TestSorted(OverFolders):
    form = FileForm(order_by=("number", "word"))


class TestLinesOfDelta(OverFolders):
    form = FileForm(columns_as="delta", format="jsonl")


class TestPartitionedLinesOfEvents(OverFolders):
    form = FileForm(partition_by=("number", "word"), format="jsonl", columns_as="debezium")
