from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from icefloe.batch.fast_ways import COMPARING_WAYS, FastWay
from icefloe.batch.map import rewritten_files
from icefloe.batch.map.write_map_output import write_map_output
from icefloe.errors import TerminalError
from support.pipelines.workshop import OpenBatch, Workshop
from support.tables.events import rows


@pytest.fixture
def batch(workshop: Workshop) -> OpenBatch:
    workshop.append(range(50))
    workshop.deliver()
    workshop.replace(rows(range(50)).set_column(1, "value", pa.array(np.where(np.arange(50) % 9 == 0, 2.0, 1.0))))
    return workshop.set(verify_sample=1.0).open()


@pytest.mark.parametrize(
    ("ways", "advice"),
    [
        (COMPARING_WAYS, "report this as a bug"),
        (tuple(FastWay), "Set row_lineage: off, run `icefloe abandon events`, and compare earlier batches with"),
    ],
)
def test_a_map_task_that_lost_a_change_commits_nothing(
    batch: OpenBatch, monkeypatch: pytest.MonkeyPatch, ways: tuple[FastWay, ...], advice: str
) -> None:
    inputs = replace(batch.inputs, folder=replace(batch.inputs.folder, fast_ways=ways))
    # Changed rows are taken for copies on both sides, so their counts still close.
    monkeypatch.setattr(rewritten_files, "differing_rows", lambda *_: np.zeros(0, np.int64))
    with pytest.raises(TerminalError, match=advice) as caught:
        write_map_output(inputs, 0)
    assert caught.value.map_id == 0
    assert inputs.folder.map_outputs.current(0).record is None
    # Without the sample, nothing tells that a change is missing.
    inputs = replace(inputs, folder=replace(inputs.folder, verify_sample=0.0))
    assert write_map_output(inputs, 0).rows == 0


def test_a_pipeline_says_what_it_trusts_and_how_much_it_verifies(workshop: Workshop) -> None:
    workshop.append(range(5))
    trusting = workshop.set(row_lineage="trust", verify_sample=0.25).open().inputs.folder
    assert (trusting.fast_ways, trusting.verify_sample) == (tuple(FastWay), 0.25)
    assert workshop.set(row_lineage="off").open().inputs.folder.fast_ways == COMPARING_WAYS
