"""The arguments of each operation, drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from histories.column_values import TYPES
from histories.sql_literals import SQL_TYPES

__all__ = ["PARTITIONS", "operation_document"]

Document = dict[str, Any]

_NAMES: Final = ("a", "b", "c", "A", "k", "v")
PARTITIONS: Final = ("identity", "identity", "bucket[2]", "truncate[2]", "bucket[3]")


def operation_document(random: Random, writer: str, name: str) -> Document:
    """An operation with arguments, as `history.operations_of` takes it."""
    if name == "publish_together":
        return {"do": name, "parts": _parts(random, _APPENDS if writer == "pyiceberg" else _DELTAS)}
    document = _document(random, name)
    if writer == "sql" and name == "add_column":
        return {**document, "type": random.choice(SQL_TYPES)}
    return document


def _document(random: Random, name: str) -> Document:
    return {"do": name, **_ARGUMENTS[name](random)}


def _seed(random: Random) -> int | None:
    return None if random.random() < 0.12 else random.randrange(4)


def _row(random: Random) -> list[int | None]:
    return [_seed(random) for _ in range(random.choice((2, 3, 4)))]


def _rows(random: Random, least: int = 0, most: int = 5) -> list[list[int | None]]:
    rows = [_row(random) for _ in range(random.randint(least, most))]
    return rows + random.sample(rows, min(len(rows), random.choice((0, 0, 1))))


def _numbers(random: Random, least: int, most: int, below: int = 8) -> list[int]:
    return [random.randrange(below) for _ in range(random.randint(least, most))]


def _picks(random: Random, least: int = 1, most: int = 4) -> list[list[int]]:
    return [_numbers(random, 2, 2, below=6) for _ in range(random.randint(least, most))]


def _condition(random: Random) -> list[Any]:
    if random.random() < 0.1:
        return []
    return [random.randrange(4), random.choice(("==", "==", "!=", "<", ">=")), _seed(random)]


def _files(random: Random) -> list[list[list[int | None]]]:
    return [_rows(random, 1) for _ in range(random.choice((1, 1, 2, 3)))]


def _parts(random: Random, names: Sequence[str]) -> list[Document]:
    return [_document(random, random.choice(names)) for _ in range(random.randint(2, 3))]


def _row_delta(random: Random) -> Document:
    return {
        "rows": _rows(random, 0, 4),
        "deleted": _picks(random, 0, 2),
        "deleted_added": _picks(random, 0, 2),
        "columns": _numbers(random, 0, 2, below=4),
        "keys": [_row(random) for _ in range(random.randint(0, 2))],
        "keys_of_rows": random.random() < 0.6,
        "file": random.randrange(4),
        "granularity": random.choice(("file", "partition")),
    }


_APPENDS: Final = ("append", "delete_rows", "overwrite")
_DELTAS: Final = ("append", "delete_positions", "delete_keys", "row_delta", "upsert_keys", "rewrite_rows", "drop_files")

_ARGUMENTS: Final[Mapping[str, Callable[[Random], Document]]] = {
    "append": lambda r: {"files": _files(r)},
    "add_column": lambda r: {
        "name": r.choice(_NAMES),
        "type": r.choice([*sorted(TYPES), "int", "string"]),
        **({"parent": r.randrange(3)} if r.random() < 0.3 else {}),
        **({"default": r.randrange(4)} if r.random() < 0.5 else {}),
    },
    "drop_column": lambda r: {"column": r.randrange(6)},
    "rename_column": lambda r: {"column": r.randrange(6), "name": r.choice(_NAMES)},
    "promote_column": lambda r: {"column": r.randrange(4)},
    "move_column": lambda r: {"column": r.randrange(6)},
    "make_optional": lambda _: {"column": 0},
    "identify": lambda r: {"columns": _numbers(r, 0, 1)},
    "add_partition": lambda r: {"column": r.randrange(3), "transform": r.choice(PARTITIONS)},
    "drop_partition": lambda r: {"field": r.randrange(3)},
    "roll_back": lambda r: {"snapshot": r.randrange(6)},
    "set_current": lambda r: {"snapshot": r.randrange(8)},
    "expire": lambda r: {"count": r.randrange(3)},
    "deliver": lambda _: {},
    "insert": lambda r: {"rows": _rows(r, 1)},
    "insert_overwrite": lambda r: {"where": _condition(r)},
    "delete": lambda r: {"where": _condition(r)},
    "update": lambda r: {"column": r.randrange(4), "value": _seed(r), "where": _condition(r)},
    "merge": lambda r: {
        "column": r.randrange(3),
        "rows": _rows(r, 1),
        "removed": _condition(r) if r.random() < 0.4 else [],
    },
    "call": lambda r: {"procedure": r.choice(("data", "deletes", "manifests"))},
    "delete_rows": lambda r: {"where": _condition(r)},
    "overwrite": lambda r: {"where": _condition(r), "rows": _rows(r)},
    "upsert": lambda r: {"column": r.randrange(3), "rows": _rows(r, 1)},
    "overwrite_partitions": lambda r: {"rows": _rows(r, 1)},
    "rewrite_all": lambda _: {},
    "append_as": lambda r: {"rows": _rows(r, 1), "file_format": "orc"},
    "delete_positions": lambda r: {
        "rows": _picks(r),
        "granularity": r.choice(("file", "partition")),
        "referenced": r.random() < 0.3,
    },
    "delete_keys": lambda r: {
        "columns": _numbers(r, 1, 2, below=4),
        "keys": [_row(r) for _ in range(r.randint(1, 3))],
        "file": r.randrange(4),
    },
    "row_delta": _row_delta,
    "upsert_keys": lambda r: {"columns": _numbers(r, 1, 2, below=3), "rows": _rows(r, 1)},
    "drop_deletes": lambda r: {"file": r.randrange(4)},
    "drop_files": lambda r: {"files": _numbers(r, 1, 2)},
    "rewrite_rows": lambda r: {
        "files": _numbers(r, 1, 3),
        "dropped": _numbers(r, 0, 2),
        "added": _rows(r, 0, 2),
    },
    "compact": lambda r: {
        "files": _numbers(r, 1, 4),
        "keep_sequence": r.random() < 0.7,
        "drop_deletes": r.random() < 0.5,
    },
    "compact_deletes": lambda r: {"granularity": r.choice(("file", "partition"))},
    "rewrite_manifests": lambda _: {},
    "upgrade": lambda _: {},
    "on_branch": lambda r: {"name": "b", "operations": _parts(r, _DELTAS)},
    "fast_forward": lambda r: {"name": r.choice(("b", "c")), "operations": _parts(r, _DELTAS)},
    "cherry_pick": lambda r: {"files": _files(r), "then": _parts(r, _DELTAS)[: r.randrange(3)]},
}
