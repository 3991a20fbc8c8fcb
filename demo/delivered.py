"""The change files as a reader sees them: counted, and a few of the changes side by side."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

__all__ = ["Delivered"]

_OURS: Final = ("_batch", "_change_type", "_change_ordinal", "_commit_snapshot_id", "_commit_timestamp")
_UPDATE_BEFORE: Final = "UPDATE_BEFORE"
_UPDATE_AFTER: Final = "UPDATE_AFTER"


class Delivered:
    """The Parquet files of the files sink.

    Args:
        folder: the sink's path.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def changes(self, batch_number: int) -> pa.Table:
        """The changes of a batch, in the order of delivery; read are the files that the manifest names."""
        batch = self.folder / f"batch={batch_number}"
        manifest = json.loads((batch / "_manifest.json").read_text())
        return pa.concat_tables(pq.read_table(batch / name) for part in manifest["parts"] for name in part["names"])

    def counts(self, batch_number: int) -> dict[str, int]:
        """The changes of a batch by their type."""
        return dict(Counter(self.changes(batch_number)["_change_type"].to_pylist()))

    def sample(self, batch_numbers: range, *, each: int) -> Table:
        """A few changes of every kind, an update on one line: what it changed, from what to what."""
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="")
        for name in ("batch", "ordinal", "change", "flight_id", "flight", "column", "before", "after"):
            table.add_column(name, justify="right" if name == "flight_id" else "left", no_wrap=True)
        for number in batch_numbers:
            for row in _rows(self.changes(number), each):
                table.add_row(*row)
        return table


def _rows(changes: pa.Table, each: int) -> Iterator[tuple[str, ...]]:
    """Some changes of each ordinal and kind, by their key: identities have no order that each run repeats."""
    names = ("_change_ordinal", "_change_type", "flight_id")
    changed = zip(*(changes[name].to_pylist() for name in names), range(len(changes)), strict=True)
    found = sorted(change for change in changed if change[1] != _UPDATE_BEFORE)
    for (_, change_type), group in groupby(found, key=lambda change: change[:2]):
        for *_, position in list(group)[:each]:
            # An update's two images are neighbours, before first.
            first = position - 1 if change_type == _UPDATE_AFTER else position
            yield from _lines(*changes.slice(first, position - first + 1).to_pylist())


def _lines(change: Mapping[str, Any], after: Mapping[str, Any] | None = None) -> Iterator[tuple[str, ...]]:
    kind = change["_change_type"] if after is None else "UPDATE"
    flight = "{carrier} {flight} {origin}-{dest}".format_map(change)
    head = (str(change["_batch"]), str(change["_change_ordinal"]), kind, str(change["flight_id"]), flight)
    if after is None:
        yield (*head, "", "", "")
        return
    for name, value in after.items():
        if name not in _OURS and value != change[name]:
            yield (*head, name, _text(change[name]), _text(value))


def _text(value: object) -> str:
    return "null" if value is None else str(value)
