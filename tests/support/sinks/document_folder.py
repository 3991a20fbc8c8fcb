"""A sink of its own: one JSON document per key in a folder, as simple as a keyed sink can be."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from icefloe.errors import TerminalError, TransientError
from icefloe.sinks.batch_to_deliver import Origin, ProvenBatch, StagedPart
from icefloe.sinks.sink import PartDelivery, Sink
from support.sinks.registered import registered_sinks

BROKEN: dict[str, Callable[[], None]] = {}
"""What a test lets happen in a call of the sink, by the name of the call."""


class DocumentFolder(Sink):
    """Documents carry the batch that wrote them; deleted rows stay as documents without a row."""

    keyed = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def url(self) -> str:
        return self._folder.as_uri()

    def check(self) -> None:
        _happens("check")

    def claim(self, origin: Origin, *, takes_over: bool = False, only_looks: bool = False) -> None:
        owner = self._folder / "owner.json"
        if not only_looks:
            _happens("claim")
        if not takes_over and owner.exists() and json.loads(owner.read_text()) != origin.owner:
            raise TerminalError(f"{self.url} is another's")
        if not only_looks:
            self._folder.mkdir(parents=True, exist_ok=True)
            owner.write_text(json.dumps(origin.owner))

    def begin(self, batch: ProvenBatch) -> Mapping[str, Any]:
        _happens("begin")
        return {"begun_by": batch.origin.pipeline}

    def deliver(self, batch: ProvenBatch, begun: Mapping[str, Any], part: StagedPart) -> PartDelivery:
        _happens("deliver")
        assert begun == {"begun_by": batch.origin.pipeline}
        count = 0
        for rows in part.read():
            for row, shown in zip(rows.to_pylist(), batch.shown_rows(rows).to_pylist(), strict=True):
                self._write(batch, row, shown)
            count += rows.num_rows
        _happens("delivered")
        return PartDelivery(number=part.number, rows=count, documents=count, bytes=part.size_bytes)

    def finish(self, batch: ProvenBatch, begun: Mapping[str, Any], deliveries: Sequence[PartDelivery]) -> None:
        assert begun == {"begun_by": batch.origin.pipeline}
        _happens("finish")
        (self._folder / f"finished-{batch.batch_number}").write_text(str(sum(each.rows for each in deliveries)))

    def read_back(self, schema: pa.Schema, *, keys: pa.RecordBatch | None = None) -> Iterator[pa.RecordBatch]:
        assert keys is None
        yield pa.RecordBatch.from_pylist([row for row in self.documents().values() if row], schema=schema)

    def close(self) -> None:
        _happens("close")

    def documents(self) -> dict[str, dict[str, Any] | None]:
        files = sorted(self._folder.glob("doc-*.json"))
        return {file.stem.removeprefix("doc-"): json.loads(file.read_text())["row"] for file in files}

    def _write(self, batch: ProvenBatch, row: dict[str, Any], shown: dict[str, Any]) -> None:
        key = "-".join(str(row[name]) for name in batch.identity)
        file = self._folder / f"doc-{key}.json"
        if file.exists() and json.loads(file.read_text())["batch"] > batch.batch_number:
            return
        is_gone = row["_change_type"] in ("DELETE", "UPDATE_BEFORE")
        document = {"batch": batch.batch_number, "row": None if is_gone else shown}
        file.write_text(json.dumps(document, default=str))


def open_document_folder(options: Mapping[str, Any], **_: Any) -> DocumentFolder:
    """The sink whose ``options`` name a ``folder``."""
    return DocumentFolder(Path(options["folder"]))


@contextmanager
def registered() -> Iterator[None]:
    """Registers the sink as ``documents``; takes back what tests let happen."""
    with registered_sinks(documents=open_document_folder):
        yield
    BROKEN.clear()


def _happens(call: str) -> None:
    if call in BROKEN:
        BROKEN[call]()


def refuses_once(call: str) -> None:
    """Lets a call fail the first time."""

    def fail() -> None:
        del BROKEN[call]
        raise TransientError(f"{call} got no answer")

    BROKEN[call] = fail
