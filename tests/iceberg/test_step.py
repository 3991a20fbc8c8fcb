import json
import math
import uuid
from datetime import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from icefloe.documents import dump_document, load_document
from icefloe.errors import TerminalError
from icefloe.iceberg.data_file import DataFile, constant_from_json, constant_to_json
from icefloe.iceberg.step import Step, StepKind
from icefloe.iceberg.table import table_uuid
from support.tables.planning_tables import make_catalog, make_table, rows


def step(**changes: Any) -> Step:
    facts = {
        "change_ordinal": 0,
        "kind": StepKind.COMMIT,
        "start_snapshot_id": None,
        "end_snapshot_id": 2**62,
        "snapshot_ids": (5, 2**62),
        "commit_snapshot_id": 2**62,
        "commit_timestamp_us": 1,
    }
    return Step(**{**facts, **changes})


def test_a_step_survives_its_document_and_its_snapshot_ids_are_strings_there() -> None:
    data = dump_document(step())
    assert load_document(Step, data, what="an offset") == step()
    assert json.loads(data)["snapshot_ids"] == ["5", str(2**62)]
    with pytest.raises(TerminalError):
        load_document(DataFile, b'{"path": "a", "colour": 1}', what="a plan")


def test_steps_have_snapshots_and_ordinals() -> None:
    with pytest.raises(ValueError, match="names no snapshot"):
        step(snapshot_ids=())
    with pytest.raises(ValueError, match="counts from 0, found -1"):
        step(change_ordinal=-1)


def load(folder: Path) -> Table:
    return make_catalog(folder).load_table("db.events")


@pytest.mark.parametrize("format_version", [1, 2])
def test_a_table_keeps_its_uuid_and_a_new_one_has_another(tmp_path: Path, format_version: int) -> None:
    table = make_table(tmp_path, format_version=format_version)
    table.append(rows(1))
    assert table_uuid(load(tmp_path)) == table_uuid(load(tmp_path)) == str(table.metadata.table_uuid)
    make_catalog(tmp_path).drop_table("db.events")
    made_anew = make_table(tmp_path, format_version=format_version)
    assert made_anew.metadata.location == table.metadata.location
    assert table_uuid(load(tmp_path)) not in (None, str(table.metadata.table_uuid))


def test_a_uuid_that_was_made_up_on_loading_does_not_count(tmp_path: Path) -> None:
    table = make_table(tmp_path, format_version=1)
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    del metadata["table-uuid"]
    path.write_text(json.dumps(metadata))
    assert load(tmp_path).metadata.table_uuid != load(tmp_path).metadata.table_uuid
    assert table_uuid(load(tmp_path)) is None


SOME_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
NANOS = 1510871468000001001


@pytest.mark.parametrize(
    ("value_type", "stored", "json_value", "value"),
    [
        (LongType(), 2**60, 2**60, 2**60),
        (FloatType(), 1.5, 1.5, 1.5),
        (DoubleType(), math.inf, "Infinity", math.inf),
        (DoubleType(), -math.inf, "-Infinity", -math.inf),
        (DoubleType(), -0.0, "-0.0", -0.0),
        (DecimalType(9, 2), Decimal("14.20"), "14.20", Decimal("14.20")),
        (DateType(), 17486, "2017-11-16", 17486),
        (DateType(), 2932897, "10000-01-01", 2932897),
        (DateType(), -(2**31), "-5877641-06-23", -(2**31)),
        (TimeType(), 81068000000, "22:31:08", time(22, 31, 8)),
        (TimestampType(), -1, "1969-12-31T23:59:59.999999", -1),
        (TimestamptzType(), 0, "1970-01-01T00:00:00+00:00", 0),
        (TimestamptzType(), -62135596800000001, "0000-12-31T23:59:59.999999+00:00", -62135596800000001),
        (TimestamptzNanoType(), NANOS, "2017-11-16T22:31:08.000001001+00:00", NANOS),
        (StringType(), "NaN", "NaN", "NaN"),
        (UUIDType(), SOME_UUID, str(SOME_UUID), SOME_UUID),
        (FixedType(2), b"\x00\xff", "00ff", b"\x00\xff"),
        (StringType(), None, None, None),
    ],
    ids=str,
)
def test_partition_values_survive_the_document(
    value_type: PrimitiveType, stored: Any, json_value: Any, value: Any
) -> None:
    assert constant_to_json(value_type, stored) == json_value
    file = DataFile(
        path="f", file_format="PARQUET", spec_id=0, record_count=1, file_size_bytes=1,
        constants={"1": constant_to_json(value_type, stored)},
    )  # fmt: skip
    loaded = load_document(DataFile, dump_document(file), what="a plan")
    assert loaded == file
    assert constant_from_json(value_type, loaded.constants["1"]) == value


def test_a_partition_of_nan_is_one_and_an_older_value_has_the_type_of_its_column_now() -> None:
    assert constant_to_json(DoubleType(), math.nan) == "NaN"
    assert math.isnan(constant_from_json(DoubleType(), "NaN"))
    assert constant_from_json(DoubleType(), constant_to_json(FloatType(), 1.5)) == 1.5
    assert constant_from_json(LongType(), constant_to_json(IntegerType(), 7)) == 7
