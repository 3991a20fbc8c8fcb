"""The first batch of a pipeline says to its sink that it begins anew, and when the destination is complete."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from icefloe.sinks.batch_to_deliver import ProvenBatch
from support.pipelines.workspace import Workspace, icefloe
from support.sinks.document_folder import DocumentFolder
from support.sinks.registered import registered_sinks

BEFORE: list[int | None] = []
"""Of each batch that began, the batch that the destination must have had."""
CUTS: list[str] = []
"""Of each batch that began, how it was divided into parts."""


class Listener(DocumentFolder):
    """A folder of documents that remembers how each batch began."""

    def __init__(self, folder: Path, heard: list[tuple[int, bool, bool, bool]]) -> None:
        super().__init__(folder)
        self._heard, self._before = heard, BEFORE

    def begin(self, batch: ProvenBatch) -> Mapping[str, Any]:
        self._heard.append((batch.batch_number, batch.begins_anew, batch.is_load, batch.ends_load))
        self._before.append(batch.delivered_before)
        CUTS.append(batch.cut)
        return super().begin(batch)


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[list[tuple[int, bool, bool, bool]]]:
    found: list[tuple[int, bool, bool, bool]] = []
    BEFORE.clear()
    CUTS.clear()
    with registered_sinks(listener=lambda _: Listener(tmp_path / "documents", found)):
        yield found


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"initial_load": "full"}, [(0, True, True, True), (1, False, False, False)]),
        ({"initial_load": "from_earliest"}, [(0, True, False, True), (1, False, False, False)]),
        ({"initial_load": "from_now"}, [(0, True, False, True), (1, False, False, False)]),
        (
            {"initial_load": "full", "max_bytes_per_batch": 1},
            [(0, True, True, False), (1, False, True, True), (2, False, False, False)],
        ),
    ],
    ids=["load", "earliest", "now", "parts"],
)
def test_a_beginning_is_complete_with_its_last_batch(
    keys: dict[str, Any], expected: list[tuple[int, ...]], tmp_path: Path, heard: list[tuple[int, ...]]
) -> None:
    table = Workspace.create(tmp_path)
    pipeline = table.pipeline(sink={"type": "listener"}, engine="local", **keys)
    table.append(1, 2)
    table.append(3, 4)
    for _ in expected[:-1]:
        assert icefloe("run", pipeline).code == 0
    table.append(5)
    assert icefloe("run", pipeline).code == 0
    assert heard == expected


def test_a_batch_is_known_by_its_parts_in_each_try(tmp_path: Path, heard: list[tuple[int, ...]]) -> None:
    table = Workspace.create(tmp_path)
    pipeline = table.pipeline(sink={"type": "listener"}, engine="local")
    table.append(1)
    with patch.object(Listener, "finish", side_effect=KeyboardInterrupt):
        assert icefloe("run", pipeline).code not in (0, 65)
    assert icefloe("run", pipeline).code == 0
    table.append(2)
    assert icefloe("run", pipeline).code == 0
    assert [number for number, *_ in heard] == [0, 0, 1]
    first, again, next_one = CUTS
    assert first == again != next_one


def test_a_batch_goes_on_where_others_ended_also_after_one_that_delivered_nothing(
    tmp_path: Path, heard: list[tuple[int, ...]]
) -> None:
    table = Workspace.create(tmp_path)
    pipeline = table.pipeline(sink={"type": "listener"}, engine="local")
    table.append(1)
    first = table.table.refresh().metadata.current_snapshot_id

    def moved(*command: object) -> None:
        assert icefloe(command[0], pipeline, *command[1:], "--yes").code == 0
        table.append(2)
        assert icefloe("run", pipeline).code == 0

    # A pipeline whose cursor was set before it delivered anything has shown nothing to its sink.
    moved("set-cursor", "--snapshot-id", first)
    moved("set-cursor", "--snapshot-id", first)
    moved("reset")
    assert BEFORE == [None, 1, None]


def test_a_pipeline_that_began_at_an_empty_table_goes_on_with_the_first_commit(
    tmp_path: Path, heard: list[tuple[int, ...]]
) -> None:
    table = Workspace.create(tmp_path)
    keys: dict[str, Any] = {"initial_load": "from_now", "changelog": {"keep": "7d"}}
    pipeline = table.pipeline(sink={"type": "listener"}, engine="local", **keys)
    for _ in range(3):
        assert icefloe("run", pipeline).code == 0
        table.append(1)
    assert heard == [(0, True, False, True), (1, False, False, False), (2, False, False, False)]
    assert BEFORE == [None, 0, 1]
    replayed = icefloe("deliver", pipeline, "--batches", "0-1")
    assert (replayed.code, heard[3:]) == (0, [(0, True, False, True), (1, False, False, False)]), replayed.err


def test_a_reload_is_a_beginning_for_the_sink(tmp_path: Path, heard: list[tuple[int, ...]]) -> None:
    table = Workspace.create(tmp_path)
    pipeline = table.pipeline(sink={"type": "listener"}, engine="local", on_gap="reload")
    table.append(1)
    assert icefloe("run", pipeline).code == 0
    table.append(2)
    table.append(3)
    *old, _ = [each.snapshot_id for each in table.table.refresh().metadata.snapshots]
    table.table.maintenance.expire_snapshots().by_ids(old).commit()
    assert icefloe("run", pipeline).code == 0
    assert heard == [(0, True, True, True), (1, True, True, True)]
