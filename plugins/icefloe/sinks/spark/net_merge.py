"""The statements by which a table follows the net effect of a batch: one MERGE, and the proof that it fits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa

from icefloe.changes.columns import ChangeColumns
from icefloe.sinks.batch_to_deliver import ProvenBatch, column_path
from icefloe.sinks.spark.changes_view import VIEW, sql_name

MOST_RANGES: Final = 100
"""Iceberg reads no bounds of longer lists; as ranges of a key they rule files out."""
NET: Final = "icefloe_net"
GONE: Final = "icefloe_gone"
_FILE, _POSITION = "_icefloe_file", "_icefloe_position"
_CHANGES: Final = f"{VIEW} _icefloe_c"
"""By another name, so that `changes`.`id` is a field of a column called so, and no column of the view."""
_WAS, _IS, _TURN, _SUM = "_icefloe_was", "_icefloe_is", "_icefloe_turn", "_icefloe_sum"
_AFTER: Final = f"({ChangeColumns.TYPE} IN ('INSERT', 'UPDATE_AFTER'))"
_TURN_ORDER: Final = f"struct({ChangeColumns.ORDINAL}, {_AFTER})"
_EXACT: Final[Mapping[str, tuple[str, str]]] = {
    "int": ("CAST({0} AS BIGINT)", "CAST({0} AS INT)"),
    "long": ("{0}", "CAST({0} AS BIGINT)"),
    "date": ("CAST(unix_date({0}) AS BIGINT)", "date_from_unix_date({0})"),
    "timestamptz": ("unix_micros({0})", "timestamp_micros({0})"),
    "timestamp": ("unix_micros(CAST({0} AS TIMESTAMP))", "CAST(timestamp_micros({0}) AS TIMESTAMP_NTZ)"),
}
"""A value as a whole number, and a whole number as a value, by type; the session is in UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetMerge:
    """The MERGE of a batch.

    Attributes:
        keys: paths of the identifier columns.
        shown: names of the columns that the batch has.
        kinds: by name of a column whose ranges rule files out, its kind.
    """

    keys: Sequence[tuple[str, ...]]
    shown: Sequence[str]
    kinds: Mapping[str, str]

    @classmethod
    def of(cls, batch: ProvenBatch, bounded: Iterable[str]) -> Self:
        """The merge of a batch; files of the target are told apart by the bounds of these columns and of the key."""
        keys = [column_path(batch.shown_schema, name) for name in batch.identity]
        names = {*bounded, *(path[0] for path in keys if len(path) == 1)}
        kinds = {each.name: _kind(each.type) for each in batch.shown_schema if each.name in names}
        return cls(
            keys=keys,
            shown=batch.shown_schema.names,
            kinds={name: kind for name, kind in kinds.items() if kind is not None},
        )

    @property
    def net(self) -> str:
        """The query of the view `NET`: of each key its last row, and whether it had one before and has one after."""
        keys = self._list()
        return f"""
            SELECT * FROM (
              SELECT *, {_AFTER} AS {_IS},
                row_number() OVER (PARTITION BY {keys} ORDER BY {_TURN_ORDER} DESC) AS {_TURN},
                min_by(NOT {_AFTER}, {_TURN_ORDER}) OVER (PARTITION BY {keys}) AS {_WAS},
                sum(IF({_AFTER}, 1, -1)) OVER (PARTITION BY {keys}) AS {_SUM}
              FROM {_CHANGES}
            ) WHERE {_TURN} = 1 AND ({_WAS} OR {_IS} OR {_SUM} <> 0)"""  # noqa: S608 - names of ours, or quoted

    @property
    def null_key(self) -> str:
        """A query for a row whose key is null."""
        tests = " OR ".join(f"{key} IS NULL" for key in self._each())
        return f"SELECT {self._list()} FROM {_CHANGES} WHERE {tests} LIMIT 1"  # noqa: S608

    @property
    def crowded_key(self) -> str:
        """A query for a key with several rows."""
        expected = f"CAST({_IS} AS INT) - CAST({_WAS} AS INT)"
        return f"SELECT {self._list()} FROM {NET} WHERE {_SUM} <> {expected} LIMIT 1"  # noqa: S608

    def extent(self, column: str) -> str:
        """A query for the least and the greatest value of a column, as whole numbers, and the number of nulls."""
        value = self._exact(column)
        return f"SELECT min({value}), max({value}), count_if({value} IS NULL) FROM {VIEW}"  # noqa: S608

    def gaps(self, column: str) -> str:
        """A query for the largest gaps between values of a column, each as its two ends."""
        return f"""
            SELECT low, high FROM (
              SELECT lag(x) OVER (ORDER BY x) AS low, x AS high
              FROM (SELECT DISTINCT {self._exact(column)} AS x FROM {VIEW}) WHERE x IS NOT NULL
            ) WHERE low IS NOT NULL
            ORDER BY CAST(high AS DOUBLE) - CAST(low AS DOUBLE) DESC, high LIMIT {MOST_RANGES - 1}"""  # noqa: S608

    def within(self, column: str, extent: Sequence[int | None], gaps: Iterable[tuple[int, int]]) -> str:
        """The condition that a row of the target has a value in the ranges that the gaps leave."""
        least, greatest, nulls = extent
        name = f"t.{sql_name(column)}"
        tests = [f"{name} IS NULL"] if nulls else []
        if least is not None and greatest is not None:
            ordered = sorted(gaps)
            starts, ends = [least, *(high for _, high in ordered)], [*(low for low, _ in ordered), greatest]
            for start, end in zip(starts, ends, strict=True):
                tests.append(f"{name} BETWEEN {self._literal(column, start)} AND {self._literal(column, end)}")
        return f"({' OR '.join(tests)})" if tests else "true"

    def drifted_key(self, target: str, conditions: Sequence[str]) -> str:
        """A query for a key that is not in the target as often as it must be, 0 times or once."""
        listed = ", ".join(f"c.{key}" for key in self._each())
        counted = f"c.{_WAS}, count(t.{self._each()[0]}) AS n"
        return f"""
            SELECT {self._list(aliased=True)} FROM (
              SELECT {", ".join(f"c.{key} AS k{n}" for n, key in enumerate(self._each()))}, {counted}
              FROM {NET} c LEFT JOIN {target} t ON {self._on(conditions)} GROUP BY {listed}, c.{_WAS}
            ) WHERE n <> CAST({_WAS} AS INT) LIMIT 1"""  # noqa: S608

    def merge(self, target: str, conditions: Sequence[str], columns: Sequence[str]) -> str:
        """The statement; a column of the target that the batch lacks is null from now on."""
        values = {name: f"c.{sql_name(name)}" if name in self.shown else "NULL" for name in columns}
        return f"""
            MERGE INTO {target} t USING {NET} c ON {self._on(conditions)}
            WHEN MATCHED AND NOT c.{_IS} THEN DELETE
            WHEN MATCHED THEN UPDATE SET {", ".join(f"{sql_name(name)} = {each}" for name, each in values.items())}
            WHEN NOT MATCHED AND c.{_IS} THEN
              INSERT ({", ".join(map(sql_name, values))}) VALUES ({", ".join(values.values())})"""  # noqa: S608

    def whole_rows(self, schema: pa.Schema) -> str:
        """The query of the view `NET` if rows have no key: each row that a batch removes or adds, and how often."""
        columns = ", ".join(f"any_value({sql_name(name)}) AS {sql_name(name)}" for name in self.shown)
        return f"""
            SELECT {columns}, CAST(sum(IF({_AFTER}, 1, -1)) AS INT) AS {_SUM}
            FROM {_CHANGES} GROUP BY {", ".join(_values(schema))} HAVING {_SUM} <> 0"""  # noqa: S608

    def removed_rows(self, target: str, conditions: Sequence[str], schema: pa.Schema) -> str:
        """The query of the view `GONE`: the places of rows that leave, of equal ones as many as were removed."""
        on = " AND ".join(f"{t} <=> {c}" for t, c in zip(_values(schema, "t."), _values(schema, "c."), strict=True))
        order = f"PARTITION BY {', '.join(_values(schema, 'c.'))} ORDER BY t._file, t._pos"
        return f"""
            SELECT * FROM (
              SELECT t._file AS {_FILE}, t._pos AS {_POSITION}, c.{_SUM}, row_number() OVER ({order}) AS {_TURN}
              FROM {target} t JOIN {NET} c ON {" AND ".join([on, f"c.{_SUM} < 0", *conditions])}
            ) WHERE {_TURN} <= -{_SUM}"""  # noqa: S608

    @property
    def removed_counts(self) -> str:
        """A query for the number of rows that leave, and of those that were found."""
        expected = f"SELECT -coalesce(sum({_SUM}), 0) FROM {NET} WHERE {_SUM} < 0"  # noqa: S608
        return f"SELECT ({expected}), (SELECT count(*) FROM {GONE})"  # noqa: S608

    def merge_rows(self, target: str, conditions: Sequence[str]) -> str:
        """The statement by which whole rows leave and enter."""
        names = ", ".join(map(sql_name, self.shown))
        on = [f"t._file = c.{_FILE}", f"t._pos = c.{_POSITION}", *conditions]
        return f"""
            MERGE INTO {target} t USING (
              SELECT {_FILE}, {_POSITION}, {", ".join(f"NULL AS {sql_name(name)}" for name in self.shown)} FROM {GONE}
              UNION ALL
              SELECT NULL, NULL, {names} FROM (SELECT *, explode(sequence(1, {_SUM})) FROM {NET} WHERE {_SUM} > 0)
            ) c ON {" AND ".join(on)}
            WHEN MATCHED THEN DELETE
            WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({", ".join(f"c.{sql_name(name)}" for name in self.shown)})
            """  # noqa: S608

    def load(self, target: str) -> str:
        """The statement of a load into Delta, which takes the fields of structs by name in a MERGE alone."""
        names = ", ".join(map(sql_name, self.shown))
        values = ", ".join(f"c.{sql_name(name)}" for name in self.shown)
        return f"""
            MERGE INTO {target} t USING {VIEW} c ON false
            WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"""  # noqa: S608

    def insert(self, target: str) -> str:
        """The statement of a load, whose rows are all new."""
        names = ", ".join(map(sql_name, self.shown))
        return f"INSERT INTO {target} BY NAME SELECT {names} FROM {VIEW}"  # noqa: S608

    def _each(self) -> list[str]:
        return [sql_name(*path) for path in self.keys]

    def _list(self, *, aliased: bool = False) -> str:
        return ", ".join(f"k{n}" if aliased else key for n, key in enumerate(self._each()))

    def _on(self, conditions: Sequence[str]) -> str:
        return " AND ".join([*(f"t.{key} = c.{key}" for key in self._each()), *conditions])

    def _exact(self, column: str) -> str:
        return _EXACT[self.kinds[column]][0].format(sql_name(column))

    def _literal(self, column: str, value: int) -> str:
        return _EXACT[self.kinds[column]][1].format(f"CAST('{value}' AS BIGINT)")


def _values(schema: pa.Schema, prefix: str = "") -> list[str]:
    """The columns as they are compared: Spark takes 0.0 and -0.0 for one number, and the target may be wider."""
    names = [(f"{prefix}{sql_name(each.name)}", pa.types.is_floating(each.type)) for each in schema]
    return [f"CAST(CAST({name} AS DOUBLE) AS STRING)" if is_float else name for name, is_float in names]


def _kind(kind: pa.DataType) -> str | None:
    """None: values of the type are no whole numbers."""
    if pa.types.is_timestamp(kind):
        return None if kind.unit != "us" else "timestamp" if kind.tz is None else "timestamptz"
    names = {pa.int32(): "int", pa.int64(): "long", pa.date32(): "date"}
    return names.get(kind)
