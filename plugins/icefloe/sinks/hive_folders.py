"""Folders of partitions as Hive names them, and sorted rows cut at each of them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import TerminalError
from icefloe.sinks.json_texts import JsonForm, row_texts

_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
_MOST_BYTES: Final = 255
"""Of a name on disk, with its final slash."""
_SPECIAL: Final = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
"""As of Hive and Spark, which keep spaces and all letters as they are."""


Run: TypeAlias = tuple[Mapping[str, object], Iterable[pa.RecordBatch]]
"""Rows of a partition, after the JSON of its values."""


def hive_folder(values: Mapping[str, object]) -> str:
    """The folder of rows by the JSON of their values, with a final slash; an empty text counts as null, as in Hive.

    >>> hive_folder({"a/b": "x=1", "n": None, "ok": True}), hive_folder({})
    ('a%2Fb=x%3D1/n=__HIVE_DEFAULT_PARTITION__/ok=true/', '')
    """
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
    named = {name: _NO_VALUE if values[name] in (None, "") else _escaped(text) for name, text in texts.items()}
    folders = {name: f"{_escaped(name)}={text}/" for name, text in named.items()}
    for name, folder in folders.items():
        if len(folder.encode()) > _MOST_BYTES:
            raise TerminalError(
                f"column {name} has a value that is too long for the name of a folder ({_MOST_BYTES} bytes, escaped): "
                "take another column for partition_by, or leave such rows out by `filter`, and run `icefloe reset`",
                key="sink.partition_by",
            )
    return "".join(folders.values())


def hive_runs(pieces: Iterable[tuple[pa.RecordBatch, pa.RecordBatch]]) -> Iterator[Run]:
    """Rows of files and their partition columns, sorted by these, cut at each new combination of values."""

    def cut() -> Iterator[tuple[str, pa.RecordBatch]]:
        for rows, columns in pieces:
            runs, start = pc.run_end_encode(row_texts(columns, JsonForm.READABLE)), 0
            for text, stop in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
                yield text, rows.slice(start, stop - start)
                start = stop

    for text, found in groupby(cut(), itemgetter(0)):
        yield json.loads(text), (rows for _, rows in found)


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", text)
