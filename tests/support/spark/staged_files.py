"""Sinks that get the parts of a batch as files, as tasks stage them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icefloe.sinks.batch_to_deliver import ProvenBatch, StagedPart
from icefloe.sinks.sink import PartDelivery, Sink

__all__ = ["FromFiles"]


class FromFiles(Sink):
    """A mixin: writes each part to a file that Spark reads, and removes it."""

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "part.parquet"
            pq.write_table(pa.Table.from_batches(part.read(), batch.schema), path)
            return super().deliver(batch, begun, replace(part, urls=(f"file://{path}",)))  # type: ignore[safe-super]
