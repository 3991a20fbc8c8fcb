import pyarrow as pa
from pyiceberg.table.name_mapping import MappedField, NameMapping

from icefloe.iceberg.schemas.arrow_columns import FileColumn, file_columns


def with_id(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)})


def mapped(field_id: int | None, *names: str, fields: list[MappedField] | None = None) -> MappedField:
    return MappedField(field_id=field_id, names=list(names), fields=fields or [])


def ids(columns: tuple[FileColumn, ...]) -> dict[str, int | None]:
    return {column.name: column.field_id for column in columns}


def test_columns_without_ids_get_those_of_their_names_at_every_level() -> None:
    file = pa.schema(
        [
            ("m", pa.map_(pa.string(), pa.struct([("a", pa.int64())]))),
            ("l", pa.list_(pa.struct([("b", pa.int64())]))),
            ("old name", pa.int64()),
        ]
    )
    value = mapped(12, "value", fields=[mapped(13, "a")])
    element = mapped(21, "element", fields=[mapped(22, "b")])
    mapping = NameMapping(
        [
            mapped(1, "m", fields=[mapped(11, "key"), value]),
            mapped(2, "l", fields=[element]),
            mapped(3, "new name", "old name"),
        ]
    )
    columns = file_columns(file, mapping)
    assert ids(columns) == {"m": 1, "l": 2, "old name": 3}
    assert ids(columns[0].children) == {"key": 11, "value": 12}
    assert ids(columns[0].children[1].children) == {"a": 13}
    assert ids(columns[1].children[0].children) == {"b": 22}


def test_an_id_in_the_file_wins_over_the_name_mapping() -> None:
    file = pa.schema([with_id("a", pa.int64(), 1), pa.field("b", pa.int64()), pa.field("c", pa.int64())])
    mapping = NameMapping([mapped(9, "a"), mapped(1, "b"), mapped(3, "c")])
    assert ids(file_columns(file, mapping)) == {"a": 1, "b": None, "c": 3}
