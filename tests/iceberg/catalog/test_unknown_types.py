from typing import Any

import pytest
from pyiceberg.table.metadata import TableMetadataUtil

from icefloe.iceberg.catalog.metadata_errors import unknown_column_type


def metadata(kind: object, **changes: Any) -> dict[str, object]:
    fields = [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "c", "type": kind, "required": False},
    ]
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    return {
        "format-version": 2, "table-uuid": "f79c3e09-677c-4bbd-a479-3f349cb785e7", "location": "s3://b/t",
        "last-sequence-number": 0, "last-updated-ms": 1, "last-column-id": 9, "current-schema-id": 0,
        "schemas": [schema],
        "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}], "last-partition-id": 999,
        "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}], **changes,
    }  # fmt: skip


def error_of(document: dict[str, object]) -> BaseException:
    with pytest.raises(Exception) as refused:
        TableMetadataUtil.parse_obj(document)
    return refused.value


def nested(kind: object) -> dict[str, object]:
    return {"type": "struct", "fields": [{"id": 5, "name": "x", "type": kind, "required": False}]}


@pytest.mark.parametrize(
    "kind",
    [
        "variant",
        nested("variant"),
        {"type": "list", "element-id": 5, "element": "variant", "element-required": False},
        {"type": "map", "key-id": 5, "key": "string", "value-id": 6, "value": "variant", "value-required": False},
        nested({"type": "list", "element-id": 6, "element": nested("variant"), "element-required": False}),
    ],
    ids=str,
)
def test_an_unknown_type_is_reported_with_its_column(kind: object) -> None:
    found = unknown_column_type(error_of(metadata(kind)))
    assert found == ("variant", 2)


def test_other_faults_of_the_metadata_are_not_types() -> None:
    assert unknown_column_type(error_of(metadata("long", **{"last-column-id": "many"}))) is None
    assert unknown_column_type(ValueError("variant")) is None
