"""Histories from a seed: the same seed gives the same history."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

from histories.column_values import TYPES
from histories.generated_arguments import PARTITIONS, operation_document
from histories.history import Column, History, PartitionField, TableShape, operations_of
from histories.sql_literals import SQL_TYPES

__all__ = ["WRITERS", "generate"]

WRITERS: Final = ("pyiceberg", "java", "sql")
_KEYS: Final = ("long", "long", "int", "string", "decimal", "date", "binary", "uuid")
_SQL_KEYS: Final = ("long", "int", "string", "decimal", "date", "binary")
_MODES: Final = ("merge-on-read", "merge-on-read", "copy-on-write")
_PARTITIONED: Final = ("long", "int", "string")


def generate(seed: int, writer: str, *, length: int = 7) -> History:
    """A history of about ``length`` operations for one of `WRITERS`."""
    random = Random(f"{writer} {seed}")
    shape = _shape(random, writer)
    weights = _WEIGHTS[writer]
    names = random.choices(list(weights), list(weights.values()), k=random.randint(length // 2, length + 1))
    documents = [operation_document(random, writer, name) for name in ("append", *names)]
    return History(seed=seed, writer=writer, shape=shape, operations=operations_of(documents))


def _shape(random: Random, writer: str) -> TableShape:
    keys, types = (_SQL_KEYS, SQL_TYPES) if writer == "sql" else (_KEYS, sorted(TYPES))
    key = Column(name="k", type=random.choice(keys), required=random.random() < 0.3)
    others = random.sample(types, random.randint(0, 3))
    columns = [key, Column(name="v", type="int"), *(Column(name=f"c{i}", type=kind) for i, kind in enumerate(others))]
    candidates = [column.name for column in columns if column.type in _PARTITIONED]
    partitioned = random.random() < 0.4
    return TableShape(
        format_version=random.choice((1, 2, 2))
        if writer == "pyiceberg"
        else random.choice((2, 2, 2, 2, 3, 3, 3, 3, 1)),
        columns=tuple(columns),
        partitioned_by=(PartitionField(column=random.choice(candidates), transform=random.choice(PARTITIONS)),)
        if partitioned
        else (),
        identifier_fields=("k",) if key.required and random.random() < 0.5 else (),
        properties=_properties(random, writer),
    )


def _properties(random: Random, writer: str) -> dict[str, str]:
    if writer == "sql":
        modes = {f"write.{verb}.mode": random.choice(_MODES) for verb in ("delete", "update", "merge")}
        return {**modes, "write.delete.granularity": random.choice(("file", "partition"))}
    return {"write.parquet.row-group-limit": "3"} if random.random() < 0.2 else {}


_TABLE: Final = {
    "append": 8,
    "add_column": 2,
    "drop_column": 1.5,
    "rename_column": 1.5,
    "promote_column": 1,
    "move_column": 0.5,
    "make_optional": 0.5,
    "identify": 0.3,
    "add_partition": 1,
    "drop_partition": 0.7,
    "roll_back": 1,
    "set_current": 0.7,
    "expire": 0.3,
    "deliver": 4,
}
_WEIGHTS: Final[Mapping[str, Mapping[str, float]]] = {
    "pyiceberg": {
        **_TABLE,
        "delete_rows": 6,
        "overwrite": 4,
        "upsert": 4,
        "overwrite_partitions": 2,
        "rewrite_all": 0.5,
        "publish_together": 3,
    },
    "java": {
        **_TABLE,
        "append_as": 0.5,
        "delete_positions": 7,
        "delete_keys": 6,
        "row_delta": 6,
        "upsert_keys": 3,
        "drop_deletes": 2,
        "drop_files": 1,
        "rewrite_rows": 4,
        "compact": 3,
        "compact_deletes": 1,
        "rewrite_manifests": 0.7,
        "upgrade": 1.5,
        "on_branch": 1,
        "fast_forward": 1,
        "cherry_pick": 0.7,
        "publish_together": 1.5,
    },
    "sql": {
        **_TABLE,
        "append": 3,
        "insert": 4,
        "insert_overwrite": 1,
        "delete": 6,
        "update": 6,
        "merge": 6,
        "call": 3,
        "delete_keys": 1,
        "row_delta": 1,
        "upgrade": 0.5,
    },
}
