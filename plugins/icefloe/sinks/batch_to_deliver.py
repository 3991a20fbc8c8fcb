"""A proven batch, its parts, and its columns by dotted names."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.changes.columns import ChangeColumns
from icefloe.documents import Document
from icefloe.errors import TerminalError
from icefloe.iceberg.step import Step
from icefloe.pipeline.settings import OutputOption

__all__ = ["Origin", "ProvenBatch", "StagedPart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin(Document):
    """Who delivers: a destination belongs to one origin at a time.

    Attributes:
        owner: the checkpoint's id.
    """

    owner: str
    pipeline: str
    table: str

    def refuse_other(self, found: "Origin", *, place: str, record: str, key: str) -> None:
        """Raise if a destination is another origin's.

        Args:
            found: as the destination's ``record`` says.
            key: completes "give each ... a ... of its own".
        """
        if found.owner != self.owner:
            raise TerminalError(
                f"{place} belongs to pipeline {found.pipeline} for table {found.table} with the checkpoint "
                f"{found.owner}, as {record} says, not to checkpoint {self.owner} of pipeline {self.pipeline}; give "
                f"each pipeline, and each new start of one, a {key}",
                owner=found.owner,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenBatch:
    """A batch whose sums are proven, as every task of its delivery sees it.

    Attributes:
        batch_number: only grows within an origin, also after a reset or a reload.
        after_snapshot_id: exclusive; None: from before the table's first snapshot.
        up_to_snapshot_id: inclusive.
        load_stop: number of files that a load in several batches has delivered after it; None: it is no such load.
        begins_anew: True for the first batch of a pipeline, also after a reset or a reload: it replaces what the
            destination holds of this origin.
        is_load: True for every batch of a load, whose rows are a state of the table and no changes of it.
        ends_load: True for the batch that completes what `begins_anew` began: the last batch of a load, or the first
            batch without one (``initial_load: from_earliest`` or ``from_now``).
        delivered_before: number of the last batch delivered here since the pipeline began. A destination that ends
            earlier was restored, or is another one. None: no batch, or this one begins anew or is a replay.
        is_replay: True if a committed batch is delivered once more: later batches stay, and are counted as superseded.
            Otherwise they are an error.
        counts: changes by change type in lower case.
        schema: of the staged rows: the change columns (`icefloe.changes.columns`), then the columns of the table.
        identity: dotted names of the identifier columns; empty if the rows have none.
        selected: dotted names of the selected columns; None: all. Others in ``schema`` serve the identity only.
        field_ids: the table's field ids of the columns of ``schema``, nested ones too, by dotted name. A column that is
            dropped and added again has another id. Empty: not known.
        defaulted: dotted names of columns with an initial default: rows from before they were added have a value.
        changes: the pipeline's ``changes``. The parts of an ``upsert`` have no UPDATE_BEFORE. Those of ``append_only``
            have only INSERT, and lack the steps that the destination shall not see. ``rows`` and ``counts`` leave out
            UPDATE_BEFORE of an ``upsert`` too, but count all rows of those steps.
        hash_key: key of the batch's row hashes, 128 bits.
        hash_sum: of all its changes in the columns of ``schema``; None: not known, or ``changes`` leaves some out.
        columns: Iceberg's JSON of the columns to show; empty: not known.
        changed_partitions: as in `BatchSummary`.
        cut: a digest of how the batch is divided into parts. It changes only if lost files were staged again in other
            parts: then the number of a part says nothing of its rows. Empty: not known.
        log: the steps by ordinal, each with the time at which readers first saw its end; empty if the pipeline does not
            follow the log.
        shown_schema: the table's columns to show. A struct has only the selected fields.
        given_schema: the change columns, then those to show.
    """

    origin: Origin
    batch_number: int
    after_snapshot_id: int | None
    up_to_snapshot_id: int | None
    load_stop: int | None = None
    begins_anew: bool = False
    is_load: bool = False
    ends_load: bool = False
    delivered_before: int | None = None
    is_replay: bool = False
    steps: int = 0
    rows: int
    counts: Mapping[str, int]
    schema: pa.Schema
    identity: tuple[str, ...]
    selected: tuple[str, ...] | None = None
    field_ids: Mapping[str, int] = field(default_factory=dict)
    defaulted: frozenset[str] = frozenset()
    changes: OutputOption = "each"
    hash_key: int
    hash_sum: int | None = None
    columns: Mapping[str, object] = field(default_factory=dict)
    changed_partitions: tuple[str, ...] | None = None
    cut: str = ""
    log: tuple[Step, ...] = ()
    # Found once: sinks ask for it with each few thousand rows.
    shown_schema: pa.Schema = field(init=False, repr=False, compare=False)
    given_schema: pa.Schema = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Finds what is shown."""
        columns = pa.schema([column for column in self.schema if column.name not in ChangeColumns.ALL])
        shown = columns if self.selected is None else pa.schema(selected_fields(columns, self.selected))
        object.__setattr__(self, "shown_schema", shown)
        object.__setattr__(self, "given_schema", pa.schema([*self._change_columns, *shown]))

    @property
    def end(self) -> str:
        """Up to where the batch goes, in words. Two batches of one number with other ends have other changes."""
        snapshot = f"snapshot {self.up_to_snapshot_id}"
        return snapshot if self.load_stop is None else f"file {self.load_stop} of {snapshot}"

    def shown_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of rows to show."""
        shown = rows.select(self.shown_schema.names)
        return shown if shown.schema.equals(self.shown_schema) else shown.cast(self.shown_schema)

    def given_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The change columns of rows, then the columns to show."""
        changes = rows.select([column.name for column in self._change_columns])
        columns = [*changes.columns, *self.shown_rows(rows).columns]
        return pa.RecordBatch.from_arrays(columns, schema=self.given_schema)

    @property
    def _change_columns(self) -> list[pa.Field]:
        return [column for column in self.schema if column.name in ChangeColumns.ALL]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPart:
    """A part of a proven batch. All changes of one key are in one part, in the order of their ordinals.

    That is: unless the sink has an order of its own (``order_by``).

    An insert-only batch is not shuffled: a key that two files insert may be in two parts.

    Attributes:
        number: icefloe numbers parts without gaps; a sink must not rely on it.
        first_row: number of rows in the parts before it.
        read: returns all rows in order; each call reads them again.
        urls: of its Parquet files, for an engine that reads them itself; with the rows that ``read`` leaves out because
            ``changes`` is ``upsert`` or ``append_only``. Empty: there are none.
    """

    number: int
    first_row: int
    rows: int
    size_bytes: int
    read: Callable[[], Iterator[pa.RecordBatch]]
    urls: tuple[str, ...] = ()

    @classmethod
    def whole(cls, parts: Sequence["StagedPart"]) -> "StagedPart":
        """All parts of a batch as one, number 0."""

        def read() -> Iterator[pa.RecordBatch]:
            for part in parts:
                yield from part.read()

        rows, size_bytes = (sum(sizes) for sizes in ([p.rows for p in parts], [p.size_bytes for p in parts]))
        urls = tuple(url for part in parts for url in part.urls)
        return cls(number=0, first_row=0, rows=rows, size_bytes=size_bytes, read=read, urls=urls)


def column_path(fields: Iterable[pa.Field], dotted: str) -> tuple[str, ...]:
    """The names from the top down to a column, or KeyError. A name may have dots itself.

    >>> column_path(pa.schema({"at": pa.struct({"x.y": pa.int64()}), "at.z": pa.int64()}), "at.x.y")
    ('at', 'x.y')
    """
    named = list(fields)
    if dotted in [each.name for each in named]:
        return (dotted,)
    for each in named:
        if dotted.startswith(f"{each.name}.") and pa.types.is_struct(each.type):
            try:
                return (each.name, *column_path(each.type, dotted.removeprefix(f"{each.name}.")))
            except KeyError:
                continue
    raise KeyError(dotted)


def column_type(schema: pa.Schema, dotted: str) -> pa.DataType:
    """The type of a column."""
    top, *inner = column_path(schema, dotted)
    kind = schema.field(top).type
    for name in inner:
        kind = kind.field(name).type
    return kind


def named_columns(rows: pa.RecordBatch, names: Sequence[str]) -> list[pa.Array]:
    """Columns of rows. A column inside a struct that is null is null.

    >>> rows = pa.RecordBatch.from_pydict({"at": [{"x": 1}, None]})
    >>> named_columns(rows, ["at.x"])[0].to_pylist()
    [1, None]
    """
    columns = []
    for name in names:
        top, *inner = column_path(rows.schema, name)
        column = rows.column(top)
        columns.append(pc.struct_field(column, inner) if inner else column)
    return columns


def selected_fields(fields: Iterable[pa.Field], names: Sequence[str]) -> list[pa.Field]:
    """The named fields, with only named fields inside.

    >>> selected_fields(pa.schema({"at": pa.struct({"x": pa.int64(), "y": pa.int64()}), "v": pa.int8()}), ["at.y"])
    [pyarrow.Field<at: struct<y: int64>>]
    """
    by_name = {each.name: each for each in fields}
    whole, inside = set[str](), defaultdict[str, list[str]](list)
    for name in names:
        if name in by_name:
            whole.add(name)
            continue
        with suppress(KeyError):
            top = column_path(by_name.values(), name)[0]
            inside[top].append(name.removeprefix(f"{top}."))
    return [
        each if name in whole else each.with_type(pa.struct(selected_fields(each.type, inside[name])))
        for name, each in by_name.items()
        if name in whole or name in inside
    ]


def column_paths(fields: Iterable[pa.Field]) -> list[tuple[str, ...]]:
    """The paths of all columns, those inside of structs first, so that columns at the top count last."""
    paths: list[tuple[str, ...]] = []
    for each in (named := list(fields)):
        if pa.types.is_struct(each.type):
            paths += [(each.name, *path) for path in column_paths(each.type)]
    return [*paths, *((each.name,) for each in named)]
