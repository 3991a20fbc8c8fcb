"""Columns of a target, after random changes of those of the source, among names that get in each other's way."""

from dataclasses import dataclass, field
from random import Random
from typing import Final

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Transaction

from icefloe.sinks.iceberg.target_schema import evolve

NAMES: Final = ("v", "a", "b", "a.b")
CHANGES: Final = 14


@dataclass
class Source:
    """Columns of whole numbers, or structs of them; no two are called alike, in whatever case."""

    random: Random
    columns: dict[str, int] = field(default_factory=dict)  # field ids
    structs: dict[int, dict[str, int]] = field(default_factory=dict)  # their fields, by field id
    last_id: int = 0

    def change(self) -> None:
        inner = self.random.choice([self.columns, self.columns, *self.structs.values()])
        changes = [self.add, self.drop, self.rename, self.change_case, self.swap, self.replace]
        self.random.choice(changes)(inner)
        self.structs = {key: found for key, found in self.structs.items() if key in self.columns.values()}

    def add(self, columns: dict[str, int]) -> None:
        columns[self.free_name(columns)] = self.new_id()
        if columns is self.columns and self.random.random() < 0.4:
            self.structs[self.last_id] = {"x": self.new_id()}

    def drop(self, columns: dict[str, int]) -> None:
        if len(columns) > 1:
            del columns[self.random.choice([*columns])]

    def rename(self, columns: dict[str, int]) -> None:
        if columns:
            columns[self.free_name(columns)] = columns.pop(self.random.choice([*columns]))

    def change_case(self, columns: dict[str, int]) -> None:
        if columns:
            name = self.random.choice([*columns])
            columns[name.swapcase()] = columns.pop(name)

    def swap(self, columns: dict[str, int]) -> None:
        if len(columns) > 1:
            one, other = self.random.sample([*columns], 2)
            columns[one], columns[other] = columns[other], columns[one]

    def replace(self, columns: dict[str, int]) -> None:
        """A column is dropped, and another one gets its name, perhaps in another case."""
        if columns:
            name = self.random.choice([*columns])
            del columns[name]
            columns[self.random.choice([name, name.swapcase()])] = self.new_id()

    def new_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def free_name(self, columns: dict[str, int]) -> str:
        """Often the one that an old column of another name would get."""
        taken = {name.lower() for name in columns}
        aside = [f"{name}_{key}" for name in NAMES for key in range(1, self.last_id)]
        return self.random.choice([name for name in (*NAMES, *aside, f"n{self.last_id}") if name not in taken])

    @property
    def schema(self) -> pa.Schema:
        kinds = {key: pa.struct([(name, pa.int64()) for name in inner]) for key, inner in self.structs.items()}
        return pa.schema([(name, kinds.get(key, pa.int64())) for name, key in self.columns.items()])

    @property
    def dotted(self) -> list[tuple[str, int]]:
        inner = ((f"{name}.{each}", i) for name, key in self.columns.items() for each, i in self._inside(key).items())
        return [*self.columns.items(), *inner]

    def _inside(self, key: int) -> dict[str, int]:
        return self.structs.get(key, {})


@pytest.mark.parametrize("seed", [*range(20), *(pytest.param(s, marks=pytest.mark.extended) for s in range(20, 200))])
def test_a_column_is_held_by_one_of_the_target_that_no_other_gets(seed: int) -> None:
    catalog, source = InMemoryCatalog("memory"), Source(Random(seed))
    catalog.create_namespace("changes")
    transaction = Transaction(catalog.create_table("changes.flights", pa.schema([])))
    fields, held = dict[int, int](), dict[int, int]()
    for _ in range(CHANGES):
        for _ in range(source.random.randrange(1, 4)):
            source.change()
        ids = dict(source.dotted)
        # The column `a.b` beside a field `b` of the column `a` is no schema of PyIceberg.
        if not ids or len(ids) < len(source.dotted):
            continue
        fields = evolve(transaction, source.schema, ids, fields, place="the target")
        found = transaction.table_metadata.schema()
        assert {name: found.find_column_name(fields[key]) for name, key in ids.items()} == {name: name for name in ids}
        assert len({fields[key] for key in ids.values()}) == len(ids)
        assert fields.items() >= held.items()
        assert not {fields[key] for key in ids.values()} & {fields[key] for key in fields.keys() - {*ids.values()}}
        assert len({each.name.lower() for each in found.fields}) == len(found.fields)
        held = {**fields}
