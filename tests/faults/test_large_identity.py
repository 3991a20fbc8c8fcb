"""One identity with most of the changes of a batch, in a process with memory for one task."""

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

from icefloe.flow import Phase
from support.limited import icefloe_within
from support.pipelines.workshop import Workshop
from support.tables.events import SCHEMA

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(600)]

MEMORY_BYTES: Final = 256 << 20
ROWS: Final = 500_000
WORD_BYTES: Final = 400


def rows(side: int) -> pa.Table:
    """Four of five rows have one key; no two rows are equal, and their words do not compress."""
    data = np.random.default_rng(side).integers(97, 123, ROWS * WORD_BYTES, np.uint8)
    ends = np.arange(0, (ROWS + 1) * WORD_BYTES, WORD_BYTES).astype(np.int32)
    words = pa.StringArray.from_buffers(ROWS, pa.py_buffer(ends), pa.py_buffer(data))
    ids = np.arange(ROWS)
    return pa.table([np.where(ids % 5, 7, ids), np.full(ROWS, float(side)), words], schema=SCHEMA)


def test_an_identity_larger_than_memory_is_delivered_within_it(tmp_path: Path) -> None:
    shuffle = {"memory_bytes": f"{MEMORY_BYTES >> 20}MiB", "partitions": 1}
    workshop = Workshop.create(tmp_path).set(initial_load="from_now", shuffle=shuffle)
    workshop.table.append(rows(0))
    workshop.deliver()
    workshop.replace(rows(1))
    batch = workshop.open()
    batch.run(Phase.SHUFFLE_WRITE)
    batch.coalesce()
    # The same batch goes on: only shuffle_read and commit are left.
    found = icefloe_within(MEMORY_BYTES, "run", workshop.pipeline_file())
    counts = [found[kind] for kind in ("update_before", "update_after", "delete", "insert")]
    assert counts == [ROWS, ROWS, 0, 0]
