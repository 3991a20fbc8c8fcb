"""Parts that tests write, deliver and damage."""

from pathlib import Path

import pyarrow.parquet as pq

from sinks.delivered_changes import SCHEMA, message, summary

BATCH = 3


def write(sink, number, batches, *, batch_number=BATCH):
    return sink.write(batch_number=batch_number, number=number, schema=SCHEMA, changes=iter(batches))


def deliver(sink, parts, *, batch_number=BATCH, pipeline="flights"):
    messages = [
        message(number, batch.num_rows, write(sink, number, [batch], batch_number=batch_number))
        for number, batch in parts.items()
    ]
    rows = sum(batch.num_rows for batch in parts.values())
    sink.commit(summary(batch_number, rows, pipeline=pipeline), messages)
    return messages


def contents(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def breaking_off(batches, error):
    yield from batches
    raise error


DAMAGES = {
    "deleted": lambda file: file.unlink(),
    "emptied": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b"x"),
}


def other_bytes(monkeypatch) -> None:
    """The output of another PyArrow: the same rows in other bytes."""
    write_table = pq.ParquetWriter.write_table
    monkeypatch.setattr(
        pq.ParquetWriter, "write_table",
        lambda writer, table, row_group_size: write_table(writer, table, row_group_size=row_group_size // 1_000),
    )  # fmt: skip
